#pragma once
/// The rules as their papers write them, in long double, one element at a time, and how far the
/// library may be from them. Nothing here uses the library's packs, kernels or prepared
/// coefficients.
///
/// The error of a rule in arithmetic T is counted in roundings. One rounding of x is off by at most
/// u |x|, with u = epsilon / 2 of T, and u |x| <= ulp(x). An oracle gives with each value its
/// `error`: the sum over the roundings on the way to it, each the magnitude of what is rounded
/// times its amplification through the rest of the formula, in units of u. Formulas are therefore
/// written in numbers that carry their error along (oracles/common.hpp), operation by operation, in
/// the order that docs/reference/rules.md states. Three things are common to all rules:
///   - An operation rounds once. The product of a multiply-add rounds `product` times: 0 fused, 1
///     without an FMA.
///   - The library holds the scalars of a step in T. A hyperparameter is given here in double, so
///     that holding it in T is one rounding of it. What is computed on the host, in double, before
///     that adds `host` for each operation; functions of the C library are good to one ulp, which
///     is two roundings.
///   - A sum a + b carries the absolute errors of a and b: where they cancel, `error` is large
///     against the result, and that is the condition of the subtraction, not a loose bound.
/// A row-wise rule has an oracle of three parts: `accumulate` says what an element adds to each
/// sum, `finalize` what the row becomes and, for the steps that follow, what its elements share;
/// the oracle's call is the step of an element, as in the oracles of other rules. A model-wise rule
/// has `settle` instead of `finalize`, which says what the clock's state becomes; the call sees the
/// state that the library has settled (now::state). `total` adds the parts in the order that
/// docs/reference/rules.md states, and counts its roundings.
///
/// Left out are products of errors (below error * u each) and the roundings of long double (2^-11
/// of double's each, on as many operations): less than 1 % together, by which `allowed` in
/// oracle.cpp widens. Nothing under- or overflows: the tests keep their numbers away from both
/// ends.

#include <support/oracles/all.hpp>
