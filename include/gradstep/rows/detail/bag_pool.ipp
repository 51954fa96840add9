#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE bag_pool::bag_pool(table_kernels const& by, std::size_t width, std::size_t rows_at_once)
    : by_(by), width_(width), rows_(rows_at_once),
      room_(new std::byte[rows_at_once * width * by.facts().storage_bytes]), sums_(width) {
    for (part& one : parts_) {
        one.ids.resize(rows_at_once);
        one.keys.resize(rows_at_once);
        one.positions.resize(rows_at_once);
        one.weights.resize(rows_at_once);
    }
}

GRADSTEP_DEFINE void bag_pool::gather(pooled_call const& of, std::size_t begin, std::size_t end, part& to) const {
    to.count = 0;
    std::size_t p = begin;
    for (; p < end && to.count < to.ids.size(); ++p) {
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
    if (by_.facts().weight_bytes == sizeof(double)) copy(to.weights.data());
    else copy(reinterpret_cast<float*>(to.weights.data()));
}

GRADSTEP_DEFINE void bag_pool::add(pooled_call const& of, std::size_t last, part const& now) {
    std::size_t const weight_bytes = by_.facts().weight_bytes, row_bytes = width_ * by_.facts().storage_bytes;
    auto const* const weights = reinterpret_cast<std::byte const*>(now.weights.data());
    for (std::size_t k = 0; bag_ != last; ++bag_, taken_ = 0) {
        std::size_t const end = end_of_bag(of.bags.offsets, of.ids.size(), bag_), first = k;
        while (k < now.count && now.positions[k] < end) ++k;
        bool const ends = k < now.count || now.end >= end, begins = taken_ == 0;
        taken_ += k - first;
        by_.add_rows({rows_.data() + first, of.bags.weights == nullptr ? nullptr : weights + first * weight_bytes,
                      k - first, width_, sums_.data(), begins,
                      ends ? static_cast<std::byte*>(of.out) + bag_ * row_bytes : nullptr,
                      of.bags.mean ? taken_ : std::size_t{1}});
        if (!ends) return;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
