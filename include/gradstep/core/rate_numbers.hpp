#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// Numbers, from 1, the triples of rate_scale, decay and step in a call, in the order in which they
// first come.
class rate_numbers {
public:
    // The number of a triple, and whether it is new.
    [[gnu::noinline]] std::pair<std::uint32_t, bool> of(double rate_scale, double decay, std::int64_t step) {
        if (2 * known_.size() >= places_.size()) grow();
        key const k{std::bit_cast<std::uint64_t>(rate_scale), std::bit_cast<std::uint64_t>(decay), step};
        std::uint32_t& place = find(k);
        bool const is_new = place == 0;
        if (is_new) {
            known_.push_back(k);
            place = static_cast<std::uint32_t>(known_.size());
        }
        return {place, is_new};
    }

private:
    struct key {
        std::uint64_t rate_scale, decay;
        std::int64_t step;
        bool operator==(key const&) const = default;
    };

    std::uint32_t& find(key const& k) {
        // Its highest bits depend on all of the key; round rates have many zeros.
        constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
        std::uint64_t const mixed = (k.decay * factor + static_cast<std::uint64_t>(k.step)) * factor + k.rate_scale;
        std::size_t at = static_cast<std::size_t>(mixed * factor >> shift_);
        while (true) {
            std::uint32_t& place = places_[at++ & (places_.size() - 1)];
            if (place == 0 || known_[place - 1] == k) return place;
        }
    }
    void grow() {
        places_.assign(std::size_t(1) << (64 - --shift_), 0);
        std::uint32_t number = 0;
        for (key const& k : known_) find(k) = ++number;
    }

    std::vector<key> known_;
    std::vector<std::uint32_t> places_; // numbers by hash; 0 marks a free place. At most half of the places are in use
    int shift_ = 62;                    // 64 - the logarithm of their count
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
