#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <gradstep/core/coded_block.hpp>
#include <gradstep/core/kernel.hpp>
#include <gradstep/core/sweep.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// Whether an element keeps its state in blocks (block8).
template <class Traits> inline constexpr bool in_blocks = std::is_same_v<typename Traits::state, coded_block>;

template <class Rule> constexpr bool has_code_maps() {
    if constexpr (slot_count<Rule> == 0) return true;
    else if constexpr (requires { Rule::code_maps.size(); }) return Rule::code_maps.size() == slot_count<Rule>;
    else return false;
}
// What blocks cannot do, in words.
template <class Element, class Rule, class Backend> constexpr void require_blocks() {
    if constexpr (element<Element>)
        if constexpr (in_blocks<element_traits<Element>>) {
            constexpr bool has_maps = row_wise_rule<Rule> || has_code_maps<Rule>();
            static_assert(!row_wise_rule<Rule>, "gradstep: block8 works block by block, and this rule looks at a whole "
                                                "tensor before it moves an element: use float");
            static_assert(
                has_maps,
                "gradstep: the rule does not say that 8 bits are enough for its state, as block8 keeps it: one "
                "that does has `static constexpr std::array code_maps{gs::code_map::both_signs, ...};`, one for "
                "each slot; slots that count, are averages to be read, or decide by small differences need "
                "float");
            static_assert(
                !requires(Rule const& rule) { rule.initialize(0.0f); },
                "gradstep: block8 begins with numbers, and this rule's state depends on the weight: use float");
            static_assert(
                requires { Backend::runs_blocks; },
                "gradstep: block8 is for serial_backend and simd_backend: this backend runs no blocks");
        }
}

// The map of slot I of a rule. A template of the whole: rules without slots have no maps.
template <class Rule, std::size_t I> inline constexpr code_map map_of = Rule::code_maps[I];

// Sets the blocks of n elements to a number.
inline void fill_blocks(std::span<coded_block> blocks, std::size_t n, float number, std::uint8_t code_of_zero) {
    constexpr float least = std::numeric_limits<float>::min();
    bool const is_zero = number < least && number > -least;
    coded_block all;
    all.scale = is_zero ? 0 : number;
    // Loops, not std::fill: what the standard library instantiates here has no instruction set in its name.
    for (std::uint8_t& code : all.codes) code = is_zero ? code_of_zero : std::uint8_t(255); // 255 is 1
    for (coded_block& block : blocks) block = all;
    if (std::size_t const rest = n % coded_block::length; rest != 0)
        for (std::size_t k = rest; k != coded_block::length; ++k) blocks.back().codes[k] = code_of_zero;
}

// An update of floats whose state is kept in blocks. Of each block the state is decoded, the elements are swept as those of any
// tensor, and the state is encoded, all of it in the first cache: what a rule computes is what it computes for floats. A block is
// never divided, so that the bits do not depend on how a call is.
template <class Update> struct block_kernel {
    using traits = typename Update::traits;
    using rule_type = typename Update::rule_type;
    using gradient_type = void; // nothing is to be staged but by `block`
    static constexpr std::size_t slots = slot_count<rule_type>;

    Update update; // all but the state
    typename rule_type::template state<coded_block*> state;
    std::size_t elements;

    // Updates the elements of block b by packs V.
    template <pack V> GRADSTEP_INLINE void block(std::size_t b) const {
        constexpr std::size_t length = coded_block::length;
        std::size_t const first = b * length, count = std::min(length, elements - first);
        alignas(64) float staged[slots + 1][length]; // none is not a length
        typename rule_type::template state<float*> here{};
        host_each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            decode<map_of<rule_type, i>, V>(slot<i, rule_type>(state)[b], staged[i]);
            slot<i, rule_type>(here) = staged[i];
        });
        // As in caches: decoding and encoding take longer than memory.
        if constexpr (requires { Update::gradient_type::is_lazy; }) {
            float read[length];
            for (std::size_t k = 0; k < count; ++k)
                read[k] = update.gradient.template load<float>(first + k, all_lanes{});
            sweep<V>(update.from(first, plain_gradient<float>{read}, here), 0, count, true);
        } else {
            auto gradient = update.gradient;
            gradient.at += first;
            if constexpr (requires { gradient.zeroed; })
                if (gradient.zeroed != nullptr) gradient.zeroed += first;
            sweep<V>(update.from(first, gradient, here), 0, count, true);
        }
        // Behind the end there is nothing, whatever a block in the caller's memory has there.
        for (std::size_t k = count; k != length; ++k)
            host_each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA { staged[i][k] = 0; });
        // All scales first: each takes as long to settle as the next one to find.
        float scales[slots + 1];
        host_each<slots>([&](auto i)
                             GRADSTEP_INLINE_LAMBDA { scales[i] = scale_of<map_of<rule_type, i>, V>(staged[i]); });
        host_each<slots>([&](auto i) GRADSTEP_INLINE_LAMBDA {
            encode<map_of<rule_type, i>, V>(staged[i], scales[i], slot<i, rule_type>(state)[b]);
        });
    }
};

// Runs the blocks whose first elements are from i on, before `end`: parts that divide the elements anywhere have every block once.
template <pack V, class Update>
GRADSTEP_INLINE void sweep(block_kernel<Update> const& shared, std::size_t i, std::size_t end, bool = false) {
    block_kernel<Update> const kernel = shared;
    for (std::size_t b = coded_block::count(i); b * coded_block::length < end; ++b) kernel.template block<V>(b);
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
