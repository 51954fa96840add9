#pragma once
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/terms/cautious.hpp>

namespace gradstep {
/// Cautious Adam: `adam` that leaves out the steps along the gradient instead of against it, and
/// lengthens the other steps. Liang et al. 2024, "Cautious Optimizers", arXiv:2411.16085, Algorithm
/// 1. With `decoupled` it is C-AdamW.
///
///     m, v and the change d of a weight as in `adam`
///     k <- the number of elements with d * g < 0,  of n        over the tensor (a row of a table)
///     rescale mean:    a = 1 / max(k / n, 1e-3)
///             count:   a = n / (k + 1)
///             none:    a = 1
///     w <- d * g < 0 ? w + a * d : w
///
/// State: m, v, initially zero. Ranges and bias_correction as in `adam`. Without gradient a weight
/// stays, and m and v decay: tables support `exact`. The sign of a product decides, also if the
/// product underflows. A NaN in a gradient makes k NaN.
/// Other frameworks: mean in timm's cadamw and the authors' program, whose epsilon_place is hat;
/// count in the paper and in pytorch_optimizer. The authors' program decays after the step
/// (`after_step`), timm before it.
struct cautious_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    bool bias_correction = true;
    rescaling rescale = rescaling::mean;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &cautious_adam::beta1, ranges::fraction},
        hyperparameter{"beta2", &cautious_adam::beta2, ranges::fraction},
        hyperparameter{"epsilon", &cautious_adam::epsilon, ranges::non_negative},
        hyperparameter{"epsilon_place", &cautious_adam::epsilon_place, epsilon_positions::corrected},
        hyperparameter{"bias_correction", &cautious_adam::bias_correction},
        hyperparameter{"rescale", &cautious_adam::rescale}};

    /// The rule that computes the step.
    using step = cautious<adam>;
    template <class X> using state = step::state<X>;
    static constexpr auto state_names = step::state_names;
    static constexpr auto at_zero_gradient = step::at_zero_gradient;
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }
    template <class T> using coeffs = step::coeffs<T>;
    template <class T> coeffs<T> prepare(step_info now) const {
        return step{{beta1, beta2, epsilon, epsilon_place, bias_correction}, rescale}.template prepare<T>(now);
    }

    template <class X> using partial_sums = step::partial_sums<X>;
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<V> accumulate(coeffs<T> const& c, V w, V g, state<V> const& s) {
        return step::accumulate(c, w, g, s);
    }
    template <class T, class Row>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, Row& s) {
        return step::finalize(c, row, width, s);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        step::apply(c, settled, w, g, s);
    }
};
static_assert(row_wise_rule<cautious_adam>);
} // namespace gradstep
