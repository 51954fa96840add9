#pragma once
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/number/float16.hpp>
#include <gradstep/number/scalar.hpp>

namespace gradstep {
/// Element policy: parameter and gradient in `Storage`, state slots and arithmetic in float, and a
/// float master copy of the parameter as the last state slot. The step reads the master copy,
/// updates it, and writes both the master copy and its rounded value. If an element of the
/// parameter differs in its bits from its rounded master copy, other code has written it: the step
/// then continues from the element. Writing the value that an element already has does not change
/// its master copy.
template <class Storage> struct mixed {};

/// Element policy: parameter and gradient in `Storage`, state slots and arithmetic in float, no
/// master copy. The new parameter is rounded up or down at random, with probabilities that make its
/// expectation the unrounded value. Updates that are too small for the storage then happen
/// sometimes instead of never. The random bits are a pure function of (step_options.seed, step
/// number, slice id, element): they do not depend on threads, splits or the backend.
template <class Storage> struct stochastic {};

/// Element policy: parameter, gradient and arithmetic in `Storage`, which must be float, and state
/// slots as 8-bit codes, in blocks of 256 elements with a common scale (`coded_block`): about one
/// byte per element and slot. A step decodes a block, updates it as floats, and encodes the new
/// state. Supports rules with `code_maps`, on serial_backend, simd_backend and Thrust's CPU
/// systems. Dettmers et al. 2022, arXiv:2110.02861.
template <class Storage> struct block8 {};

struct coded_block; // number/coded_block.hpp

/// Defines an element policy: the types of parameter and gradient, of the state slots, and of the
/// arithmetic, and whether there is a master copy in the compute type. Specialise it for your own
/// element.
template <class Element> struct element_traits;

/// A base for specialisations of `element_traits`, which add a `name`. `storage`: the type of
/// parameter and gradient in memory; `compute`: the type of the arithmetic; `state`: the type of
/// the slots in memory; `has_master`: whether the last slot is a master copy of the parameter in
/// the compute type; `is_stochastic`: whether the parameter is rounded at random.
template <class Storage, class Compute, bool HasMaster, bool IsStochastic = false> struct basic_element {
    using storage = Storage;
    using compute = Compute;
    using state = Compute;
    static constexpr bool has_master = HasMaster;
    static constexpr bool is_stochastic = IsStochastic;
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
template <class Storage, class Compute = Storage> struct number_element : basic_element<Storage, Compute, false> {
    static constexpr char const* name = info_of(scalar_of<Storage>()).element;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep {
template <> struct element_traits<float> : detail::number_element<float> {};
template <> struct element_traits<double> : detail::number_element<double> {};
template <> struct element_traits<bfloat16> : detail::number_element<bfloat16, float> {};
template <> struct element_traits<float16> : detail::number_element<float16, float> {};
/// Integers are for counters and deltas: for rules with `takes_integers` (add_delta). Arithmetic
/// wraps around.
template <> struct element_traits<std::int32_t> : detail::number_element<std::int32_t> {};
template <> struct element_traits<std::int64_t> : detail::number_element<std::int64_t> {};
template <> struct element_traits<mixed<bfloat16>> : basic_element<bfloat16, float, true> {
    static constexpr char const* name = "mixed<bfloat16>";
};
template <> struct element_traits<mixed<float16>> : basic_element<float16, float, true> {
    static constexpr char const* name = "mixed<float16>";
};
template <> struct element_traits<stochastic<bfloat16>> : basic_element<bfloat16, float, false, true> {
    static constexpr char const* name = "stochastic<bfloat16>";
};
template <> struct element_traits<stochastic<float16>> : basic_element<float16, float, false, true> {
    static constexpr char const* name = "stochastic<float16>";
};
template <> struct element_traits<block8<float>> : basic_element<float, float, false> {
    using state = coded_block;
    static constexpr char const* name = "block8<float>";
};

/// An element policy is a type with a specialisation of `element_traits`.
template <class Element> concept element = requires {
    typename element_traits<Element>::storage;
    typename element_traits<Element>::compute;
    typename element_traits<Element>::state;
    {element_traits<Element>::has_master};
    {element_traits<Element>::name};
};
} // namespace gradstep
