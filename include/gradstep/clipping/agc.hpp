#pragma once
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/detail/weight_changes.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/zero_gradient.hpp>

namespace gradstep {
/// Adaptive gradient clipping: a rule whose gradient has at most `clip` times the norm of the
/// weights. Brock, De, Smith & Simonyan 2021, arXiv:2102.06171, equation 3.
/// `gs::agc{gs::momentum{}, 0.01}` is a rule.
///
///     r <- min(1, clip * max(|w|, epsilon) / |g|)     norms over the tensor (a row of a table); 1 if |g| is 0
///     the step of the rule with r * g
///
/// g is the gradient after the regularizers that act before the rule. Ranges: clip > 0;
/// epsilon >= 0. State, and behaviour without gradient, are the rule's; in tables, `exact` and
/// `replay` work if the rule's state is unchanged or multiplied by factors. The rule must work
/// element by element.
/// The paper clips per unit, which is one output of a layer: make a slice, or a row of a table, of
/// each unit. Its weight decay joins the gradient after the clipping; here `l2` is clipped too, and
/// `decoupled` is not.
/// Other frameworks: optax.adaptive_grad_clip and timm's adaptive_clip_grad clip per unit by the
/// shape of a tensor, before weight decay.
template <class Rule> struct agc {
    static_assert(!row_wise_rule<Rule>,
                  "gradstep: agc: the rule is row-wise; expected a rule that works element by element");
    static_assert(!shaped_rule<Rule>,
                  "gradstep: agc: the rule needs a matrix; expected a rule that works element by element");
    static_assert(!model_wise_rule<Rule>,
                  "gradstep: agc: the rule is model-wise; expected a rule that works element by element");
    static_assert(!detail::sends_messages<Rule> && !detail::keeps_average<Rule> && detail::rare_slot_count<Rule> == 0,
                  "gradstep: agc: the rule is dgc_momentum, two_buffer_adagrad, averaged or schedule-free; expected "
                  "another rule");

    static_assert(!noisy_rule<Rule>, "gradstep: agc: the rule adds noise, and a row-wise rule gets none; expected "
                                     "another rule; clip the gradient before the step");

    Rule rule;
    double clip = 0.01, epsilon = 1e-3;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rule", &agc::rule}, hyperparameter{"clip", &agc::clip, ranges::positive},
                            hyperparameter{"epsilon", &agc::epsilon, ranges::non_negative}};

    template <class X> using state = typename Rule::template state<X>;
    static constexpr auto state_names = Rule::state_names;
    template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& s) { return detail::slot<I, Rule>(s); }
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return detail::initial_state(rule, w); }

    template <pack V>
    GRADSTEP_HD void weights_set(std::int64_t t, V w, state<V>& s) const requires(detail::contains_weights<Rule>) {
        rule.weights_set(t, w, s);
    }

    static constexpr bool takes_gradients_only = detail::takes_gradients_only<Rule>();
    static constexpr auto at_zero_gradient = detail::zero_gradient_effect_of<Rule>();
    state<double> decay() const requires(detail::decays_by_factors<Rule>) { return rule.decay(); }
    void check_decay() const {
        if constexpr (requires { rule.check_decay(); }) rule.check_decay();
    }

    template <class T> struct coeffs {
        typename Rule::template coeffs<T> rule;
        T clip, epsilon;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {rule.template prepare<T>(now), T(clip), T(epsilon)};
    }
    template <class T>
    std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const requires requires(Rule const& of) {
        of.template step_bound<T>(from, to);
    }
    {
        auto const bound = rule.template step_bound<T>(from, to);
        if (!bound) return {};
        return coeffs<T>{*bound, T(clip), T(epsilon)};
    }

    template <class X> struct partial_sums { X weight, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V w, V g, state<V> const&) {
        return {math::wide_square(w), math::wide_square(g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double, gradstep::row_state<agc, T>&) {
        double const norm = math::sqrt(row.gradient);
        double const limit = math::mul(double(c.clip), math::max(math::sqrt(row.weight), double(c.epsilon)));
        return norm <= limit ? T(1) : T(math::div(limit, norm)); // a NaN stays
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        Rule::apply(c.rule, w, math::mul(V(settled), g), s);
    }
    template <class T, pack V> GRADSTEP_HD static void after(coeffs<T> const& c, V w, state<V>& s) requires requires {
        Rule::after(c.rule, w, s);
    }
    { Rule::after(c.rule, w, s); }
};
template <class Rule> agc(Rule, double = 0.01, double = 1e-3) -> agc<Rule>;
} // namespace gradstep
