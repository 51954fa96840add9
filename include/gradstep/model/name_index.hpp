#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// FNV-1a.
inline std::uint64_t hash_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return hash;
}

// The numbers, from 0, of names that somebody else keeps in order.
class name_index {
public:
    static constexpr std::size_t none = SIZE_MAX;

    // The number of a name, or none; name_of(i) is the i-th.
    template <class NameOf> std::size_t find(std::string_view name, NameOf const& name_of) const {
        if (slots_.empty()) return none;
        std::uint64_t const hash = hash_of(name);
        for (std::size_t at = first_place(hash);; ++at) {
            std::uint32_t const number = slots_[at & (slots_.size() - 1)];
            if (number == 0) return none;
            if (hashes_[number - 1] == hash && name_of(number - 1) == name) return number - 1;
        }
    }
    // Takes the memory for one name more, so that push_back throws nothing.
    void make_room();
    // The next name, which is not in it yet.
    void push_back(std::string_view name) noexcept {
        hashes_.push_back(hash_of(name));
        place(hashes_.size() - 1);
    }

private:
    // The low bits of FNV-1a depend on the low bits of all characters alone.
    std::size_t first_place(std::uint64_t hash) const { return static_cast<std::size_t>(hash ^ (hash >> 32)); }
    void place(std::size_t number) noexcept {
        std::size_t at = first_place(hashes_[number]);
        while (slots_[at & (slots_.size() - 1)] != 0) ++at;
        slots_[at & (slots_.size() - 1)] = static_cast<std::uint32_t>(number + 1);
    }

    std::vector<std::uint64_t> hashes_;
    std::vector<std::uint32_t> slots_; // numbers + 1 by hash, 0 where there is none; at most half of them in use
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/name_index.ipp>
#endif
