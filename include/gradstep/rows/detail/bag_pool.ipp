#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE bag_pool::bag_pool(table_kernels const& by, std::size_t width, std::size_t rows_at_once)
    : by_(by), width_(width), at_once_(rows_at_once) {
    constexpr std::size_t number = sizeof(std::uint64_t); // of everything except the values
    memory_.reset(new std::byte[number * (width + 9 * at_once_) + at_once_ * width * by.facts().storage_bytes]);
    std::byte* next = memory_.get();
    auto const take = [&]<class T>(T*& to, std::size_t count) {
        static_assert(sizeof(T) == number);
        to = reinterpret_cast<T*>(std::exchange(next, next + count * number));
    };
    for (part& one : parts_) {
        take(one.ids, at_once_);
        take(one.keys, at_once_);
        take(one.positions, at_once_);
        take(one.weights, at_once_);
    }
    take(rows_, at_once_);
    take(sums_, width);
    room_ = next;
}

GRADSTEP_DEFINE void bag_pool::gather(pooled_call const& of, std::size_t begin, std::size_t end, part& to) const {
    to.count = 0;
    std::size_t p = begin;
    for (; p < end && to.count < at_once_; ++p) {
        std::uint64_t const name = of.names[p];
        if (of.padding && name == static_cast<std::uint64_t>(*of.padding)) continue;
        to.ids[to.count] = of.ids[p];
        to.keys[to.count] = name;
        to.positions[to.count] = p;
        ++to.count;
    }
    to.end = p;
    auto const copy = [&]<class T>(T* weights) {
        for (std::size_t k = 0; k < to.count; ++k) weights[k] = static_cast<T const*>(of.bags.weights)[to.positions[k]];
    };
    if (of.bags.weights == nullptr) return;
    if (by_.facts().weight_bytes == sizeof(double)) copy(to.weights);
    else copy(reinterpret_cast<float*>(to.weights));
}

GRADSTEP_DEFINE void bag_pool::add(pooled_call const& of, std::size_t last, part const& now) {
    std::size_t const weight_bytes = by_.facts().weight_bytes, row_bytes = width_ * by_.facts().storage_bytes;
    auto const* const weights = reinterpret_cast<std::byte const*>(now.weights);
    for (std::size_t k = 0; bag_ != last; ++bag_, taken_ = 0) {
        std::size_t const end = end_of_bag(of.bags.offsets, of.ids.size(), bag_), first = k;
        while (k < now.count && now.positions[k] < end) ++k;
        bool const ends = k < now.count || now.end >= end, begins = taken_ == 0;
        taken_ += k - first;
        by_.add_rows({rows_ + first, of.bags.weights == nullptr ? nullptr : weights + first * weight_bytes, k - first,
                      width_, sums_, begins, ends ? static_cast<std::byte*>(of.out) + bag_ * row_bytes : nullptr,
                      of.bags.mean ? taken_ : std::size_t{1}});
        if (!ends) return;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
