#pragma once
#include <cstddef>
#include <vector>

#include <gradstep/base/detail/hash.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Maps names to their indices, from 0. It does not own the names: callers pass a function from an
// index to its name.
class name_index {
public:
    static constexpr std::size_t none = SIZE_MAX;

    // The index of a name, or none. name_of(i) returns name i.
    template <class NameOf> std::size_t find(std::string_view name, NameOf const& name_of) const {
        if (slots_.empty()) return none;
        std::uint64_t const hash = hash_of(name);
        for (std::size_t at = first_slot(hash);; ++at) {
            std::uint32_t const number = slots_[at & (slots_.size() - 1)];
            if (number == 0) return none;
            if (hashes_[number - 1] == hash && name_of(number - 1) == name) return number - 1;
        }
    }
    // Allocates memory for one more name, so that push_back does not throw.
    void make_room();
    // Appends a name that is not in the index.
    void push_back(std::string_view name) noexcept {
        hashes_.push_back(hash_of(name));
        insert(hashes_.size() - 1);
    }

private:
    // The low bits of FNV-1a depend only on the low bits of the characters: mixes in the high ones.
    std::size_t first_slot(std::uint64_t hash) const { return static_cast<std::size_t>(hash ^ (hash >> 32)); }
    void insert(std::size_t number) noexcept {
        std::size_t at = first_slot(hashes_[number]);
        while (slots_[at & (slots_.size() - 1)] != 0) ++at;
        slots_[at & (slots_.size() - 1)] = static_cast<std::uint32_t>(number + 1);
    }

    std::vector<std::uint64_t> hashes_;
    std::vector<std::uint32_t> slots_; // index + 1, by hash; 0: free. At most half are used
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/detail/name_index.ipp>
#endif
