#pragma once
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/detail/slots.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/zero_gradient.hpp>

namespace gradstep {
/// How a cautious rule lengthens the steps that it takes. n is the number of elements of the
/// tensor (of a row of a table), k of those that take their step.
enum class rescaling {
    mean,  ///< by 1 / max(k / n, 1e-3): the authors' program and timm
    count, ///< by n / (k + 1): the paper and pytorch_optimizer
    none,  ///< not at all
};
template <> inline constexpr std::array enumerators<rescaling>{"mean", "count", "none"};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// A step that is a direction times the rate: it depends on no weight, noise or other element.
// `cautious::check` tests the rest.
template <class Rule>
concept moves_along_direction = rule<Rule> && applies_elementwise<Rule> && !settled_rule<Rule> && !noisy_rule<Rule> &&
                                !shaped_rule<Rule> && !keeps_clock_state<Rule> && !sends_messages<Rule> && !requires {
    Rule::takes_gradients_only;
}
&&!requires { Rule::pulls_weight; }
&&!requires(Rule const& r) { r.template initialize<float>(0.0f); }
&&!requires(typename Rule::template coeffs<float> c, typename Rule::template state<float>& s) {
    Rule::after(c, 0.0f, s);
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep {
/// A rule that leaves out the steps of the weights that it would move along their gradient instead
/// of against it. Liang et al. 2024, "Cautious Optimizers", arXiv:2411.16085, Algorithm 1.
///
///     d <- the change of the weight by the rule, w <- w + d
///     k <- the number of elements with d * g < 0,  of n       over the tensor (a row of a table)
///     w <- d * g < 0 ? w + d / max(k / n, 1e-3) : w           rescale = mean; count: d * n / (k + 1); none: d
///
/// `cautious{adam{}}` or `cautious<lion>`. The rule must be elementwise, and move a weight by a
/// direction times the rate that depends on no weight: adam, amsgrad, nadam, adabelief, adopt,
/// laprop, lion, momentum, nesterov, rmsprop and so on. State: the rule's. g is the gradient after
/// the regularizers that act before the rule. Configurations have `cautious_adam` and
/// `cautious_lion`, which compute the same.
///
/// Reads the gradient and the state twice. With g = 0 the weight stays, so that tables can catch up
/// exactly if the rule's slots decay by factors. A NaN in a gradient makes the factor NaN. Throws
/// value_error if the rule's step depends on the weight.
template <class Rule> struct cautious {
    static_assert(detail::moves_along_direction<Rule>,
                  "gradstep: cautious: the rule's step depends on the weight, on noise or on other elements; expected "
                  "an elementwise rule that moves along a direction, such as adam, lion or momentum");
    Rule rule = {};
    rescaling rescale = rescaling::mean;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rule", &cautious::rule}, hyperparameter{"rescale", &cautious::rescale}};
    void check() const {
        auto const step = [&](double w) { // of the weight and the slots
            std::array<double, 1 + slot_count<Rule>> out{};
            auto slots = detail::initial_state(rule, w);
            double to = w;
            Rule::apply(rule.template prepare<double>({2, 0.5}), to, 1.0, slots);
            out[0] = to - w;
            detail::host_each<slot_count<Rule>>([&](auto i) { out[1 + i] = detail::slot<i, Rule>(slots); });
            return out;
        };
        auto const at_0 = step(0), at_1 = step(1);
        for (std::size_t i = 0; i < at_0.size(); ++i)
            if (std::abs(at_1[i] - at_0[i]) > 1e-9 * (1 + std::abs(at_0[i])))
                detail::fail<value_error>({"cautious.rule"}, {"the step depends on the weight"},
                                          {"a rule that moves along a direction, such as adam, lion or momentum"});
    }

    template <class X> using state = typename Rule::template state<X>;
    static constexpr auto state_names = Rule::state_names;
    // Without gradient the weight stays.
    static constexpr auto at_zero_gradient =
        detail::decays_by_factors<Rule> ? zero_gradient_effect::decays_state : zero_gradient_effect::general;
    state<double> decay() const requires(detail::decays_by_factors<Rule>) { return rule.decay(); }
    void check_decay() const {
        if constexpr (requires { rule.check_decay(); }) rule.check_decay();
    }

    template <class T> struct coeffs {
        typename Rule::template coeffs<T> rule;
        T more, least; // a step is n / max(k + more, least * n) times as long
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        using enum rescaling;
        return {rule.template prepare<T>(now), T(rescale == count),
                T(rescale == mean    ? 1e-3
                  : rescale == count ? 0
                                     : 1)};
    }

    template <class X> struct partial_sums { X taken; };
    template <class T, pack V> GRADSTEP_HD static partial_sums<V> accumulate(coeffs<T> const& c, V, V g, state<V> s) {
        V const along = sign_along(advance(c, g, s), g);
        return {math::select(along >= V(0), V(0), V(0) - along)}; // a NaN stays
    }
    template <class T, class Row>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, Row&) {
        return T(math::div(width, math::maximum(row.taken + double(c.more), math::mul(double(c.least), width))));
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        V const move = advance(c, g, s);
        w = math::select(sign_along(move, g) >= V(0), w, math::fma(V(settled), move, w));
    }

private:
    // Updates the state and returns the change of the weight.
    template <class T, pack V> GRADSTEP_HD static V advance(coeffs<T> const& c, V g, state<V>& s) {
        V move(0);
        Rule::apply(c.rule, move, g, s);
        return move;
    }
    // 1 if the weight would move along its gradient, -1 against it, 0 if not at all. A product of
    // the two could underflow.
    template <pack V> GRADSTEP_HD static V sign_along(V move, V g) { return math::sign(move) * math::sign(g); }
};
template <class Rule> cautious(Rule) -> cautious<Rule>;
template <class Rule> cautious(Rule, rescaling) -> cautious<Rule>;
} // namespace gradstep
