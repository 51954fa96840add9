#pragma once
#include <cstddef>

#include <gradstep/core/bfloat16.hpp>

namespace gradstep {

/// Element policy: parameter and gradient in `Storage`, state slots and arithmetic in float, and a float master copy of
/// the parameter as the last state slot. The step reads the master, updates it, and writes it and its rounded value.
template <class Storage> struct mixed {};

/// What an element policy means: the type of parameter and gradient in memory, of the state slots in memory, of the
/// arithmetic, and whether a master copy in the compute type is kept. Specialise it for an element of your own.
template <class Element> struct element_traits;

/// The parts of an element policy, for specialisations of `element_traits`.
template <class Storage, class Compute, bool HasMaster> struct basic_element {
    using storage = Storage;
    using compute = Compute;
    using state = Compute;
    static constexpr bool has_master = HasMaster;
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
template <> struct element_traits<mixed<bfloat16>> : basic_element<bfloat16, float, true> {
    static constexpr char const* name = "mixed<bfloat16>";
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
