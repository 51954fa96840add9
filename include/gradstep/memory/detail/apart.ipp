#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void apart_check::begin(std::size_t count) {
    now_.clear();
    now_.reserve(count);
}

GRADSTEP_DEFINE std::optional<std::pair<std::size_t, std::size_t>> apart_check::find() {
    if (now_ == last_) return {};
    // Address and number in one word: sorting takes half the time of sorting pairs.
    constexpr std::uint64_t high = ~std::uint64_t(0) << 48;
    std::uint64_t addresses = 0;
    for (memory const& one : now_) addresses |= one.begin;
    auto const found = (addresses & high) == 0 && now_.size() <= 1u << 16
                           ? find_by(
                                 words_, [](std::uint64_t begin, std::size_t i) { return begin << 16 | i; },
                                 [](std::uint64_t key) { return static_cast<std::size_t>(key & 0xffff); })
                           : find_by(
                                 pairs_, [](std::uint64_t begin, std::size_t i) { return std::pair(begin, i); },
                                 [](auto const& key) { return key.second; });
    if (!found) std::swap(now_, last_);
    return found;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
