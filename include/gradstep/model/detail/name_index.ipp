#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void name_index::make_room() {
    if (hashes_.size() == hashes_.capacity()) hashes_.reserve(2 * hashes_.size() + 2);
    if (2 * hashes_.size() < slots_.size()) return;
    std::vector<std::uint32_t> larger(slots_.empty() ? 4 : 2 * slots_.size());
    slots_.swap(larger);
    for (std::size_t i = 0; i < hashes_.size(); ++i) insert(i);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
