#pragma once
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

#include <gradstep/base/detail/hash.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Numbers the distinct triples of rate_scale, decay and step of a call, from 1, in the order of
// their first occurrence.
class rate_numbers {
public:
    // The number of a triple, and whether it is new.
    [[gnu::noinline]] std::pair<std::uint32_t, bool> of(double rate_scale, double decay, std::int64_t step) {
        if (2 * known_.size() >= slots_.size()) grow();
        key const k{std::bit_cast<std::uint64_t>(rate_scale), std::bit_cast<std::uint64_t>(decay), step};
        std::uint32_t& slot = find(k);
        bool const is_new = slot == 0;
        if (is_new) {
            known_.push_back(k);
            slot = static_cast<std::uint32_t>(known_.size());
        }
        return {slot, is_new};
    }

private:
    struct key {
        std::uint64_t rate_scale, decay;
        std::int64_t step;
        bool operator==(key const&) const = default;
    };

    std::uint32_t& find(key const& k) {
        std::uint64_t const mixed = fibonacci_hash(k.decay) + static_cast<std::uint64_t>(k.step);
        auto at = static_cast<std::size_t>(fibonacci_hash(fibonacci_hash(mixed) + k.rate_scale) >> shift_);
        while (true) {
            std::uint32_t& slot = slots_[at++ & (slots_.size() - 1)];
            if (slot == 0 || known_[slot - 1] == k) return slot;
        }
    }
    void grow() {
        slots_.assign(std::size_t(1) << (64 - --shift_), 0);
        std::uint32_t number = 0;
        for (key const& k : known_) find(k) = ++number;
    }

    std::vector<key> known_;
    std::vector<std::uint32_t> slots_; // numbers, by hash; 0: free. At most half are used
    int shift_ = 62;                   // 64 - log2 of the number of slots
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
