#pragma once
#include <gradstep/bytes/stable_hash.hpp>
#include <gradstep/number/pack.hpp>
#include <gradstep/number/random.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The random words of the elements of one tensor in one step, a pure function of (seed, step,
// tensor id, element): Philox gives the tensor a key for the step, and a bijection of 32 bits mixes
// it with the number of the element. One Philox per element would cost more than the update.
struct element_words {
    std::uint32_t key[3];
    std::uint64_t first; // the number of element 0 of this kernel

    static element_words of(std::uint64_t seed, std::int64_t step, std::uint64_t id) {
        auto const low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
        auto const t = static_cast<std::uint64_t>(step);
        auto const random = philox4x32({{low(t), low(t >> 32), low(id), low(id >> 32)}}, seed);
        return {{random.word[0], random.word[1], random.word[2]}, 0};
    }
    GRADSTEP_HD element_words from(std::uint64_t element) const {
        element_words out = *this;
        out.first += element;
        return out;
    }

    // The words of row `name` of a table, with `width` elements. Keys beyond 2^32 are mixed into
    // the key: in the number of an element, their high bits would be lost.
    GRADSTEP_HD element_words row(std::uint64_t name, std::uint64_t width) const {
        if (name >> 32 == 0) return from(name * width);
        element_words out = *this;
        std::uint64_t const hash = stable_hash(name); // different for different names
        out.key[0] += static_cast<std::uint32_t>(hash);
        out.key[1] ^= static_cast<std::uint32_t>(hash >> 32);
        return out;
    }

    static constexpr std::uint32_t carry = 0x9e3779b9;
    // The first count, for element i. Elements beyond 2^32 have another one.
    GRADSTEP_HD std::uint32_t begin(std::uint64_t i) const {
        std::uint64_t const at = first + i;
        return static_cast<std::uint32_t>(at) + static_cast<std::uint32_t>(at >> 32) * carry + key[0];
    }
    // Whether elements i to i + count - 1 have consecutive counts from begin(i).
    GRADSTEP_HD bool contiguous(std::uint64_t i, std::uint32_t count) const {
        return static_cast<std::uint32_t>(first + i) <= 0xffff'ffffu - count;
    }
    // Three rounds of a shift and a product, with constants of little bias ("triple32" of the hash
    // prospector).
    static constexpr std::uint32_t multiplier1 = 0xed5ad4bb, multiplier2 = 0xac4c1b51, multiplier3 = 0x31848bab;
    GRADSTEP_HD std::uint32_t word(std::uint64_t i) const {
        std::uint32_t x = begin(i);
        x = (x ^ x >> 17) * multiplier1 ^ key[1];
        x = (x ^ x >> 11) * multiplier2 ^ key[2];
        x = (x ^ x >> 15) * multiplier3;
        return x ^ x >> 14;
    }
};

GRADSTEP_HD std::int32_t signed_word(element_words const& words, std::uint64_t i) {
    return static_cast<std::int32_t>(words.word(i));
}

// Rounds away the lowest `dropped` bits of x at random: up, with the probability of the dropped
// bits in units of the kept ones. Exact for every finite x. For one element; packs do it lane by
// lane.
GRADSTEP_HD float drop_bits(float x, std::uint32_t dropped, element_words const& words, std::uint64_t i) {
    std::uint32_t const mask = (1u << dropped) - 1;
    return __builtin_bit_cast(float, (__builtin_bit_cast(std::uint32_t, x) + (words.word(i) & mask)) & ~mask);
}

// The largest number of a 16-bit storage type.
template <class Storage> inline constexpr float largest_stored = 65504;
template <> inline constexpr float largest_stored<bfloat16> = 0x1.fep127f;

// w rounded at random to a value of Storage, as a number of the compute type: storing it does not
// round again. Its expectation is w. NaN and infinity stay. Numbers beyond the largest one also
// stay, and are rounded to nearest when they are stored: at random, they could become infinite
// where rounding to nearest gives the largest number.
template <class Storage, pack V>
GRADSTEP_HD V stochastically_rounded(V w, element_words const& words, std::uint64_t i) {
    using traits = pack_traits<V>;
    V const magnitude = math::abs(w);
    V rounded;
    if constexpr (std::is_same_v<Storage, bfloat16>) {
        rounded = traits::drop_bits(w, 16, words, i);
    } else {
        static_assert(std::is_same_v<Storage, float16>,
                      "gradstep: stochastic rounding: the storage has not 16 bits; expected bfloat16 or float16");
        // Below 2^-14, the numbers of float16 are 2^-24 apart, like the numbers just above 2^-14: w
        // is rounded there. If w has bits below 2^-37, these are rounded to nearest first.
        V const smallest(0x1p-14f);
        auto const is_small = magnitude < smallest;
        V const lift = math::select(is_small, smallest, V(0));
        rounded = math::multiply_sign(traits::drop_bits(magnitude + lift, 13, words, i) - lift, w);
    }
    // False for NaN, whose bits could carry into its sign.
    return math::select(magnitude <= V(largest_stored<Storage>), rounded, w);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
