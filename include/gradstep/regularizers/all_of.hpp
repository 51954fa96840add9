#pragma once
#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/policy.hpp>
#include <gradstep/policy/policy_checks.hpp>
#include <gradstep/policy/scaled_decay.hpp>
#include <gradstep/policy/scheduled.hpp>

namespace gradstep::detail {
// The combined effect of two regularizers on a weight without gradient.
constexpr zero_gradient_weight in_turn(zero_gradient_weight first, zero_gradient_weight then) {
    using enum zero_gradient_weight;
    auto const one_is = [=](zero_gradient_weight what) { return first == what || then == what; };
    if (one_is(other) || (first == coupled && then == no_op)) return other; // the second clips the pull
    if (one_is(coupled)) return one_is(shrinks) || one_is(moves) || one_is(scales_at_rest) ? other : coupled;
    if (one_is(moves)) return moves;
    if (one_is(scales_at_rest)) return one_is(no_op) ? scales_at_rest : moves; // another decay changes what it sees
    if (one_is(shrinks)) return shrinks;
    return one_is(scales) ? scales : no_op;
}
} // namespace gradstep::detail

namespace gradstep {
/// Several regularizers, applied left to right: `all_of{clip_value{1.0}, decoupled{0.01}}`. Nests.
template <class... Regularizers> struct all_of;

template <> struct all_of<> {
    static constexpr auto at_zero_gradient = zero_gradient_weight::no_op;
    static constexpr zero_gradient_weight at_zero_gradient_after(zero_gradient_weight so_far) { return so_far; }

    template <class T> struct coeffs {};
    all_of decayed_by(double) const { return {}; }
    template <class T> coeffs<T> prepare(step_info) const { return {}; }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const&, V&, V&) {}
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const&, V const&, V&) {}

    GRADSTEP_INLINE void describe_parts(detail::policy_visitor&) const {}
    GRADSTEP_INLINE void describe_to(detail::policy_visitor& to) const {
        to.begin_list("all_of");
        to.end_list();
    }
};

template <class First, class... Rest> struct all_of<First, Rest...> {
    static_assert(!detail::is_scheduled<First>,
                  "gradstep: all_of: a part is scheduled; expected gs::scheduled{gs::all_of{...}, "
                  "gs::moving<\"regularizers[1].rate\">(schedule)}");
    First first;
    all_of<Rest...> rest;

    GRADSTEP_INLINE explicit constexpr all_of(First head, Rest... tail) : first(head), rest(tail...) {
        detail::require_regularizer<First>();
    }
    GRADSTEP_INLINE constexpr all_of(First head, all_of<Rest...> tail) requires(sizeof...(Rest) > 0)
        : first(head), rest(tail) {}

    /// The same regularizers; the decaying ones are `factor` times as fast.
    all_of decayed_by(double factor) const {
        all_of out = *this;
        out.first = scaled_decay(first, factor);
        out.rest = rest.decayed_by(factor);
        return out;
    }

    template <class T> struct coeffs {
        typename First::template coeffs<T> first;
        typename all_of<Rest...>::template coeffs<T> rest;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {first.template prepare<T>(now), rest.template prepare<T>(now)};
    }
    template <class T, pack V> GRADSTEP_HD static void before(coeffs<T> const& c, V& w, V& g) {
        if constexpr (detail::acts_before<First>) First::before(c.first, w, g);
        all_of<Rest...>::before(c.rest, w, g);
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V const& old, V& w) {
        detail::act_after<First>(c.first, old, w);
        all_of<Rest...>::after(c.rest, old, w);
    }

    static constexpr zero_gradient_weight at_zero_gradient_after(zero_gradient_weight so_far) {
        if constexpr (requires { First::at_zero_gradient_after(so_far); })
            return all_of<Rest...>::at_zero_gradient_after(First::at_zero_gradient_after(so_far)); // part by part
        else
            return all_of<Rest...>::at_zero_gradient_after(
                detail::in_turn(so_far, detail::zero_gradient_weight_of<First>()));
    }
    static constexpr zero_gradient_weight at_zero_gradient = at_zero_gradient_after(zero_gradient_weight::no_op);
    // First the parts that act before the rule, then the parts that act after it.
    shrinkage shrink(step_info now) const { return shrink_further(shrink_further({}, now, true), now, false); }
    shrinkage shrink_further(shrinkage so_far, step_info now, bool before_rule) const {
        if constexpr (requires { first.shrink_further(so_far, now, before_rule); })
            so_far = first.shrink_further(so_far, now, before_rule);
        else if constexpr (requires { first.shrink(now); })
            if (detail::acts_before<First> == before_rule) so_far = so_far.then(first.shrink(now));
        if constexpr (sizeof...(Rest) != 0) return rest.shrink_further(so_far, now, before_rule);
        else return so_far;
    }

    // For policy/hyperparameters.hpp and policy/describe.hpp, part by part.
    GRADSTEP_INLINE void check_all(double largest) const {
        detail::check(first, largest);
        if constexpr (sizeof...(Rest) != 0) rest.check_all(largest);
    }
    GRADSTEP_INLINE void describe_parts(detail::policy_visitor& to) const {
        detail::visit_policy(to, first);
        rest.describe_parts(to);
    }
    GRADSTEP_INLINE void describe_to(detail::policy_visitor& to) const {
        to.begin_list("all_of");
        describe_parts(to);
        to.end_list();
    }
};

template <class... Regularizers> all_of(Regularizers...) -> all_of<Regularizers...>;
template <class... Regularizers> all_of(all_of<Regularizers...>) -> all_of<all_of<Regularizers...>>; // not a copy
} // namespace gradstep
