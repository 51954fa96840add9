#pragma once
#include <cstddef>
#include <cstdint>

#include <gradstep/core/bfloat16.hpp>
#include <gradstep/core/float16.hpp>

namespace gradstep {

/// Element policy: parameter and gradient in `Storage`, state slots and arithmetic in float, and a float master copy of
/// the parameter as the last state slot. The step reads the master, updates it, and writes it and its rounded value. If an
/// element of the parameter has other bits than its master rounded to `Storage`, other code has written the element: the step
/// goes on from the element instead of its master. Writing the value that an element has already leaves its master as it is.
template <class Storage> struct mixed {};

/// Element policy: parameter and gradient in `Storage`, state slots and arithmetic in float, no master copy; the new
/// parameter is rounded up or down at random, with the probabilities that make its expectation the unrounded value.
/// Updates too small for the storage then happen now and then instead of never. The random bits are a pure function of
/// (step_options.seed, step number, slice id, element): no thread, split, or backend changes them.
template <class Storage> struct stochastic {};

/// Element policy: parameter, gradient and arithmetic in `Storage`, which is float, and the state slots as codes of 8 bits, in
/// blocks of 256 elements that have a scale each (`coded_block`): about a byte an element and slot. A step decodes a block,
/// updates it as floats, and encodes what the state has become. For rules that have `code_maps`, on serial_backend, simd_backend
/// and Thrust's CPU systems. Dettmers et al. 2022, arXiv:2110.02861.
template <class Storage> struct block8 {};

struct coded_block; // core/coded_block.hpp

/// What an element policy means: the type of parameter and gradient in memory, of the state slots in memory, of the
/// arithmetic, and whether a master copy in the compute type is kept. Specialise it for an element of your own.
template <class Element> struct element_traits;

/// The parts of an element policy, for specialisations of `element_traits`, which add its `name`: `storage`, the type of
/// parameter and gradient in memory; `compute`, that of the arithmetic; `state`, that of the slots in memory; `has_master`,
/// whether the last slot is a copy of the parameter in that type; `is_stochastic`, whether the parameter rounds at random.
template <class Storage, class Compute, bool HasMaster, bool IsStochastic = false> struct basic_element {
    using storage = Storage;
    using compute = Compute;
    using state = Compute;
    static constexpr bool has_master = HasMaster;
    static constexpr bool is_stochastic = IsStochastic;
};

template <> struct element_traits<float> : basic_element<float, float, false> {
    static constexpr char const* name = "float";
};
template <> struct element_traits<double> : basic_element<double, double, false> {
    static constexpr char const* name = "double";
};
template <> struct element_traits<bfloat16> : basic_element<bfloat16, float, false> {
    static constexpr char const* name = "bfloat16";
};
template <> struct element_traits<float16> : basic_element<float16, float, false> {
    static constexpr char const* name = "float16";
};
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
/// Integers are for counters and deltas: rules that say `takes_integers` (add_delta). Arithmetic wraps around.
template <> struct element_traits<std::int32_t> : basic_element<std::int32_t, std::int32_t, false> {
    static constexpr char const* name = "int32";
};
template <> struct element_traits<std::int64_t> : basic_element<std::int64_t, std::int64_t, false> {
    static constexpr char const* name = "int64";
};

/// An element policy is a type for which `element_traits` says what it means.
template <class Element> concept element = requires {
    typename element_traits<Element>::storage;
    typename element_traits<Element>::compute;
    typename element_traits<Element>::state;
    {element_traits<Element>::has_master};
    {element_traits<Element>::name};
};

} // namespace gradstep
