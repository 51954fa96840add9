#pragma once
#include <gradstep/number/element.hpp>
#include <gradstep/policy/concepts.hpp>

// What the compiler says about a policy that lacks a part: one sentence about the first one.
namespace gradstep::detail::inline GRADSTEP_ISA {
template <class R> constexpr void require_rule() {
    static_assert(has_state<R>, "gradstep: rule: there is no `state`; expected `template <class X> struct state { X m, "
                                "v; };`, one member for each state slot, none for a rule without state");
    static_assert(names_its_state<R>,
                  "gradstep: rule: there is no `state_names`; expected `static constexpr std::array state_names{\"m\", "
                  "\"v\"};`, the names of its state slots in the order of the members of `state`");
    if constexpr (has_state<R> && names_its_state<R>)
        static_assert(names_fit<typename R::template state<float>, slot_count<R>>(),
                      "gradstep: rule: `state_names` does not match `state`; expected a name for every member, in "
                      "order, and no other");
    static_assert(names_fit<row_state<R, float>, row_slot_count<R>>(),
                  "gradstep: rule: `row_state_names` does not match `row_state`; expected a name for every member, in "
                  "order, and no other");
    if constexpr (has_settle<R>)
        static_assert(
            accumulates<R> && (settles_without_loss<R> || settles_by_loss<R>)&&finalizes_model<R> &&
                keeps_clock_state<R>,
            "gradstep: model-wise rule: a part is missing or has another form; expected `template <class X> struct "
            "partial_sums { X ...; };`, `accumulate(coeffs<T> const&, V w, V g, state<V> const&) -> partial_sums<V>`, "
            "`settle(std::int64_t t, clock_state const& before, partial_sums<double> const&) const -> clock_state`, "
            "`finalize<T>(step_info, clock_state const& after) const -> settled<T>`, and `clock_state_names`");
    else if constexpr (requires { &R::template accumulate<float, float>; })
        static_assert(
            accumulates<R> && finalizes<R>,
            "gradstep: row-wise rule: a part is missing or has another form; expected `template <class X> struct "
            "partial_sums { X ...; };`, `accumulate(coeffs<T> const&, V w, V g, state<V> const&) -> partial_sums<V>` "
            "and `finalize(coeffs<T> const&, partial_sums<double>, double width, row_state<T>&) -> T`, or `-> "
            "settled<T>`");
    static_assert(has_coeffs<R>, "gradstep: rule: there is no `coeffs`; expected `template <class T> struct coeffs { "
                                 "... };`, the scalars of one step");
    static_assert(prepares<R>,
                  "gradstep: rule: `prepare` is missing or has another form; expected `template <class T> coeffs<T> "
                  "prepare(gs::step_info now) const;`, which computes the scalars of one step on the host, in double");
    static_assert(
        !keeps_clock_state<R> || advances_clock_state<R>,
        "gradstep: rule: there are `clock_state_names`, and `advance` is missing or has another form; expected "
        "`gs::clock_state advance(gs::step_info now) const;`, and at most 4 names");
    static_assert(
        applies<R>,
        "gradstep: rule: `apply` is missing or has another form; expected `template <class T, gs::pack V> GRADSTEP_HD "
        "static void apply(coeffs<T> const& c, V& w, V g, state<V>& s);`, the update of one element, with `V noise` as "
        "the last argument if it needs a normal number");
}

template <class R> constexpr bool takes_integers() {
    if constexpr (requires { R::takes_integers; }) return R::takes_integers;
    else return false;
}
template <class Element, class R> constexpr void require_element_of_rule() {
    if constexpr (element<Element>)
        static_assert(
            std::is_floating_point_v<typename element_traits<Element>::compute> || takes_integers<R>(),
            "gradstep: rule: it divides, or scales by fractions, and the elements are integers; expected "
            "floating-point elements, or a rule with `static constexpr bool takes_integers = true;`, as add_delta");
}

template <class Element, class Regularizer, class None> constexpr void require_element_of_regularizer() {
    if constexpr (element<Element>)
        static_assert(std::is_floating_point_v<typename element_traits<Element>::compute> ||
                          std::is_same_v<Regularizer, None>,
                      "gradstep: regularizer: its numbers are fractions, and the elements are integers; expected "
                      "floating-point elements, or no regularizer");
}

template <class R> constexpr void require_regularizer() {
    static_assert(
        prepares<R>,
        "gradstep: regularizer: `prepare` is missing or has another form; expected `template <class T> coeffs<T> "
        "prepare(gs::step_info now) const;`, which computes the scalars of one step on the host, in double");
    static_assert(
        acts_before<R> || acts_after<R>,
        "gradstep: regularizer: `before` and `after` are missing or have another form; expected "
        "`before(coeffs<T> const& c, V& w, V& g)` (before the rule), `after(coeffs<T> const& c, V& w)` "
        "(after it) or `after(coeffs<T> const& c, V old, V& w)` (with the weight that the rule was given), or "
        "both, as GRADSTEP_HD static templates over T and gs::pack V");
}

template <class B> constexpr void require_backend() {
    static_assert(backend<B>, "gradstep: backend: a part is missing or has another form; expected `using memory_space "
                              "= gs::host_memory;` (or device_memory), `template <class T> using buffer = ...;` and "
                              "`template <class Batch> void run(Batch const& batch) const`");
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Returns true, or does not compile and says in one sentence which part of the rule R is missing:
///
///     static_assert(gs::check_rule<my_rule>()); // below your rule
template <class R> constexpr bool check_rule() {
    detail::require_rule<R>();
    return true;
}
} // namespace gradstep::inline GRADSTEP_ISA
