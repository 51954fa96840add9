#pragma once
#include <algorithm>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void eviction_log::reserve(std::size_t more) {
    if (entries.capacity() - entries.size() < more)
        entries.reserve(std::max(entries.size() + more, 2 * entries.capacity()));
}

GRADSTEP_DEFINE void eviction_log::forget(std::size_t more, std::size_t most) noexcept {
    std::size_t const kept = most / 2;
    if (entries.size() + more <= most || entries.size() <= kept) return;
    auto const first = entries.end() - static_cast<std::ptrdiff_t>(kept);
    since = first[-1].step + 1;
    entries.erase(entries.begin(), first);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
