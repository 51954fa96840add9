#pragma once
#include <algorithm>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE admission::admission(std::int64_t admit_after, double admit_probability, std::uint64_t seed,
                                     std::int64_t sketch_bytes, std::int64_t half_life)
    : seed_(seed), probability_(admit_probability), half_life_(half_life) {
    if (admit_after < 1 || admit_after > std::int64_t{1} << 16)
        fail<value_error>({"admit_after"}, {admit_after, " is out of range"}, {"[1, 65536]"});
    if (!(0 < admit_probability && admit_probability <= 1))
        fail<value_error>({"admit_probability"}, {admit_probability, " is out of range"}, {"(0, 1]"});
    enough_ = static_cast<std::uint32_t>(admit_after - 1);
    counter_bytes_ = enough_ < 256 ? 1 : 2;
    auto const smallest = static_cast<std::int64_t>(rows * counter_bytes_), largest = smallest << 32;
    if (sketch_bytes != 0 && (sketch_bytes < smallest || sketch_bytes > largest))
        fail<value_error>({"sketch_bytes"}, {sketch_bytes, " is out of range"},
                          {"0, or in [", smallest, ", ", largest, "]"});
    if (enough_ == 0) return;
    width_ = sketch_bytes == 0 ? (std::size_t{1} << 20) / rows
                               : static_cast<std::size_t>(sketch_bytes) / (rows * counter_bytes_);
    std::size_t const bytes = rows * width_ * counter_bytes_;
    rethrow_as<std::bad_alloc>([&] { counters_.resize(bytes); },
                               [&](auto const&) {
                                   fail<memory_error>({"sketch_bytes"}, {"the system does not give ", bytes, " bytes"});
                               });
}

GRADSTEP_DEFINE void admission::rollback() noexcept {
    for (; !journal_.empty(); journal_.pop_back()) {
        entry const& last = journal_.back();
        counter_indices const at = counters_of(last.key);
        for (std::size_t j = 0; j < rows; ++j)
            if (last.raised >> j & 1) {
                full_[j] -= counter(at.index[j]) == enough_;
                set_counter(at.index[j], last.count);
            }
    }
}

GRADSTEP_DEFINE void admission::age(std::int64_t step) noexcept {
    if (half_life_ == 0 || enough_ == 0) return;
    std::int64_t const halvings = step / half_life_ - halvings_;
    halvings_ += halvings;
    if (halvings <= 0) return;
    auto const shift = static_cast<int>(std::min<std::int64_t>(halvings, 8 * sizeof(std::uint16_t)));
    // Four counters, or two, at a time: there are 4 x w.
    std::uint32_t const kept =
        counter_bytes_ == 1 ? (0xffu >> shift) * 0x0101'0101u : (0xffffu >> shift) * 0x0001'0001u;
    for (std::size_t i = 0; i < counters_.size(); i += sizeof kept) {
        std::uint32_t counts;
        std::memcpy(&counts, &counters_[i], sizeof counts);
        counts = counts >> shift & kept;
        std::memcpy(&counters_[i], &counts, sizeof counts);
    }
    std::fill(full_, full_ + rows, std::size_t{0}); // no counter equals `enough_` any more
}

GRADSTEP_DEFINE double admission::early() const {
    double chance = 1;
    for (std::size_t const full : full_)
        chance *= enough_ == 0 ? 0 : static_cast<double>(full) / static_cast<double>(width_);
    return chance;
}

GRADSTEP_DEFINE void admission::restore(std::span<std::byte const> counters, std::int64_t step) {
    if (counters.size() != counters_.size())
        fail<size_error>({"sketch of admission"},
                         {"has ", counters.size(), " bytes, and the sketch of this table has ", counters_.size()},
                         {"the same sketch_bytes and admit_after"});
    std::size_t full[rows] = {};
    for (std::size_t i = 0; i < counters.size() / counter_bytes_; ++i) {
        std::uint32_t const count = read(counters.data(), i);
        if (count > enough_)
            fail<value_error>({"sketch of admission"}, {"counter ", i, " is ", count},
                              {"below admit_after = ", enough_ + 1});
        full[i / width_] += count == enough_;
    }
    std::copy(counters.begin(), counters.end(), counters_.begin());
    std::copy(full, full + rows, full_);
    if (half_life_ != 0) halvings_ = step / half_life_;
    journal_.clear();
}

GRADSTEP_DEFINE admission::counter_indices admission::counters_of(std::uint64_t key) const {
    philox_words const words = draw(key, UINT64_MAX); // no step has this number
    counter_indices at;
    for (std::size_t j = 0; j < rows; ++j)
        at.index[j] = j * width_ + static_cast<std::size_t>(std::uint64_t{words.word[j]} * width_ >> 32);
    return at;
}

GRADSTEP_DEFINE philox_words admission::draw(std::uint64_t key, std::uint64_t step) const {
    return philox4x32({{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
                        static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}},
                      seed_);
}

GRADSTEP_DEFINE bool admission::is_counted(std::uint64_t key) noexcept {
    if (enough_ == 0) return true;
    counter_indices const at = counters_of(key);
    std::uint32_t least = enough_;
    for (std::size_t const i : at.index) least = std::min(least, counter(i));
    if (least == enough_) return true;
    std::uint8_t raised = 0;
    for (std::size_t j = 0; j < rows; ++j)
        if (counter(at.index[j]) == least) {
            set_counter(at.index[j], least + 1);
            full_[j] += least + 1 == enough_;
            raised = static_cast<std::uint8_t>(raised | 1u << j);
        }
    journal_.push_back({key, static_cast<std::uint16_t>(least), raised});
    return false;
}

GRADSTEP_DEFINE bool admission::is_drawn(std::uint64_t key, std::uint64_t step) const {
    if (probability_ == 1) return true;
    philox_words const words = draw(key, step);
    std::uint64_t const bits = (std::uint64_t{words.word[0]} << 32 | words.word[1]) >> 11;
    return static_cast<double>(bits) * 0x1p-53 < probability_;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
