#pragma once
#include <gradstep/kernel/detail/sweep.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether an element keeps its state in blocks (block8).
template <class Traits> inline constexpr bool in_blocks = std::is_same_v<typename Traits::state, coded_block>;

template <class Rule> constexpr bool has_code_maps() {
    if constexpr (slot_count<Rule> == 0) return true;
    else if constexpr (requires { Rule::code_maps.size(); }) return Rule::code_maps.size() == slot_count<Rule>;
    else return false;
}
// Rejects, with a message, everything that blocks do not support.
template <class Element, class Rule, class Backend> constexpr void require_blocks() {
    if constexpr (element<Element>)
        if constexpr (in_blocks<element_traits<Element>>) {
            constexpr bool has_maps = settled_rule<Rule> || has_code_maps<Rule>();
            static_assert(!settled_rule<Rule>, "gradstep: block8: this rule reads a whole tensor before it updates an "
                                               "element; expected a rule that works block by block, or float");
            static_assert(
                has_maps,
                "gradstep: block8: the rule does not say that 8 bits are enough for its state; expected `static "
                "constexpr std::array code_maps{gs::code_map::both_signs, ...};`, one for each slot, or float; slots "
                "that count, are averages to be read, or decide by small differences need float");
            static_assert(
                !requires(Rule const& rule) { rule.initialize(0.0f); },
                "gradstep: block8: the state of this rule depends on the weight at the start; expected a rule whose "
                "state begins with numbers, or float");
            constexpr bool runs_blocks = requires { requires Backend::runs_blocks; };
            static_assert(runs_blocks, "gradstep: block8: this backend runs no blocks; expected serial_backend, "
                                       "simd_backend or a CPU system of Thrust");
        }
}

// The map of slot I of a rule. A template, since rules without slots have no maps.
template <class Rule, std::size_t I> inline constexpr code_map map_of = Rule::code_maps[I];

// Sets the blocks of n elements to a number.
inline void fill_blocks(std::span<coded_block> blocks, std::size_t n, float number, std::uint8_t code_of_zero) {
    constexpr float least = std::numeric_limits<float>::min();
    bool const is_zero = number < least && number > -least;
    coded_block all;
    all.scale = is_zero ? 0 : number;
    // Loops instead of std::fill: an instantiation of the standard library has no instruction set
    // in its name.
    for (std::uint8_t& code : all.codes) code = is_zero ? code_of_zero : std::uint8_t(255); // 255 is 1
    for (coded_block& block : blocks) block = all;
    if (std::size_t const rest = n % coded_block::length; rest != 0)
        for (std::size_t k = rest; k != coded_block::length; ++k) blocks.back().codes[k] = code_of_zero;
}

// An update of floats whose state is stored in blocks. For each block, the state is decoded, the
// elements are swept like the elements of any tensor, and the state is encoded, all in the
// first-level cache. So a rule computes the same as for floats. A block is never divided, so the
// bits do not depend on how a call is split.
template <class Update> struct block_kernel {
    using traits = typename Update::traits;
    using rule_type = typename Update::rule_type;
    using gradient_type = void; // only `block` stages anything
    static constexpr std::size_t slots = slot_count<rule_type>;

    Update update; // everything except the state
    typename rule_type::template state<coded_block*> state;
    std::size_t elements;

    // Updates `count` elements from element k of block b on. `staged` contains the state of the
    // block.
    template <pack V>
    GRADSTEP_INLINE void part(std::size_t b, std::size_t k, std::size_t count,
                              float (*staged)[coded_block::length]) const {
        typename rule_type::template state<float*> here{};
        host_each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA { slot<i, rule_type>(here) = staged[i] + k; });
        std::size_t const first = b * coded_block::length + k;
        // Not as for cached memory: codes are decoded and encoded while the divider works.
        if constexpr (requires { Update::gradient_type::is_lazy; }) {
            float read[codes_at_once];
            for (std::size_t j = 0; j < count; ++j)
                read[j] = update.gradient.template load<float>(first + j, all_lanes{});
            sweep<V>(update.from(first, plain_gradient<float>{read}, here), 0, count);
        } else {
            auto gradient = update.gradient;
            gradient.at += first;
            if constexpr (requires { gradient.zeroed; })
                if (gradient.zeroed != nullptr) gradient.zeroed += first;
            sweep<V>(update.from(first, gradient, here), 0, count);
        }
    }
};

// Whether a kernel runs blocks. (`in_blocks` of its traits is false: these are of the inner update
// of floats.)
template <class Kernel> inline constexpr bool is_block_kernel = false;
template <class Update> inline constexpr bool is_block_kernel<block_kernel<Update>> = true;

// Runs the blocks whose first elements are in [i, end). Parts that split the elements anywhere then
// run every block once. A block is encoded part by part while the next block is updated: updates
// occupy the divider, codes all other units.
template <pack V, class Update>
GRADSTEP_INLINE void sweep(block_kernel<Update> const& shared, std::size_t i, std::size_t end, bool = false) {
    block_kernel<Update> const kernel = shared;
    using rule = typename Update::rule_type;
    using codes = typename pack_traits<V>::codes;
    constexpr std::size_t slots = slot_count<rule>, length = coded_block::length;
    std::size_t const begin = coded_block::count(i), stop = coded_block::count(end);
    if (begin >= stop) return;
    alignas(64) float staged[2][slots + 1][length]; // 0 is not a valid length
    float inverse[slots + 1] = {};
    for (std::size_t b = begin; b <= stop; ++b) { // one more iteration, which encodes the last block
        bool const is_updated = b != stop, is_encoded = b != begin;
        std::size_t const count = is_updated ? std::min(length, kernel.elements - b * length) : 0;
        auto const now = staged[b % 2], before = staged[(b + 1) % 2];
        for (std::size_t k = 0; k < length; k += codes_at_once) {
            if (is_updated) {
                host_each<slots>([&](auto s) GRADSTEP_INLINE_LAMBDA {
                    coded_block const& block = slot<s, rule>(kernel.state)[b];
                    codes::template decode<map_of<rule, s>>(block.codes + k, block.scale, now[s] + k);
                });
                if (k < count) kernel.template part<V>(b, k, std::min(codes_at_once, count - k), now);
            }
            if (is_encoded)
                host_each<slots>([&](auto s) GRADSTEP_INLINE_LAMBDA {
                    coded_block& block = slot<s, rule>(kernel.state)[b - 1];
                    codes::template encode<map_of<rule, s>>(before[s] + k, inverse[s], block.codes + k);
                });
        }
        if (!is_updated) break;
        // Elements beyond the end are zero, whatever the caller's memory contains there.
        for (std::size_t k = count; k != length; ++k)
            host_each<slots>([&](auto s) GRADSTEP_INLINE_LAMBDA { now[s][k] = 0; });
        host_each<slots>([&](auto s) GRADSTEP_INLINE_LAMBDA {
            float& scale = slot<s, rule>(kernel.state)[b].scale;
            scale = scale_of<map_of<rule, s>>(now[s], codes::template extremes_of<map_of<rule, s>>(now[s]));
            inverse[s] = inverse_of(now[s], scale);
        });
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
