#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/momo_terms.hpp>

namespace gradstep {
/// MoMo-Adam: Adam whose step size follows from the loss and a lower bound of it. Schaipp et al.
/// 2023, arXiv:2305.07583, Algorithm 2. With k = 1 + lr * decay and c = 1 - beta1^t:
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     root = sqrt(v / (1 - beta2^t)) + epsilon
///     loss_average <- beta1 * loss_average + (1 - beta1) * loss
///     gamma <- beta1 * gamma + (1 - beta1) * <g, w>              products of the whole model
///     h = k * (loss_average - c * lower_bound - gamma) + <m, w>
///     step = min(lr / c, max(h, 0) / <m, m / root>)              0 if the divisor is 0
///     w <- (w - step * m / root) / k
///
/// adapt_lower_bound estimates the bound as momo does, with <m, m / root> in place of |m|^2.
///
/// Each step needs its loss: step_options::loss. The learning rate is an upper limit of the step
/// size, so choose a large one. decay is the weight decay; it is part of the step size, so
/// regularizers that change the weight itself (decoupled, after_step, cautious_decay, proximal,
/// clamp_weight) are rejected. With a rate_scale, a tensor takes a multiple of the step.
///
/// State: m, v, initially zero. loss_average, gamma (initially 0) and lower_bound are the clock's
/// state: a checkpoint and `clock()` contain them, and `seek` needs them. Ranges: 0 <= beta1,
/// beta2 < 1; epsilon and decay >= 0; lower_bound finite. Model-wise: one call of a step is a whole
/// model. Tables, averages around the rule and sharded training reject it.
/// Other frameworks: equal to MomoAdam of the authors' package momo-opt with divide, and without
/// decay to optax.contrib.momo_adam, which shrinks the weight before the step instead of after it.
struct momo_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, lower_bound = 0, decay = 0;
    bool adapt_lower_bound = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &momo_adam::beta1, ranges::fraction},
                            hyperparameter{"beta2", &momo_adam::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &momo_adam::epsilon, ranges::non_negative},
                            hyperparameter{"lower_bound", &momo_adam::lower_bound, ranges::constant(ranges::finite)},
                            hyperparameter{"decay", &momo_adam::decay, ranges::non_negative},
                            hyperparameter{"adapt_lower_bound", &momo_adam::adapt_lower_bound}};
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};

    static constexpr std::array clock_state_names = detail::momo_clock;
    static constexpr bool clock_state_is_signed = true;
    GRADSTEP_INLINE clock_state advance(step_info now) const { return detail::momo_terms::advanced(now, lower_bound); }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t)}};
    }

    template <class X> struct partial_sums { X along, norm, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V w, V g, state<V> const& s) {
        V const m = c.first(s.m, g), v = c.second.of_square(s.v, g);
        return {math::wide_product(m, w), math::wide_product(m, math::div(m, c.root.corrected_outside(v))),
                math::wide_product(g, w)};
    }
    GRADSTEP_INLINE clock_state settle(std::int64_t t, clock_state const& before, partial_sums<double> const& sums,
                                       double loss) const {
        detail::momo_terms const terms{beta1, lower_bound, decay, adapt_lower_bound, detail::bias(beta1, t)};
        return terms.settled(before, sums.along, sums.norm, sums.gradient, loss);
    }
    template <class X> using settled = momo_step<X>;
    template <class T> momo_step<T> finalize(step_info now, clock_state const& after) const {
        return {finite_number<T>(detail::momo_terms::step_of(now, after)), T(1 / (1 + math::mul(now.rate, decay)))};
    }
    template <class T, pack V>
    GRADSTEP_HD static void apply(coeffs<T> const& c, momo_step<T> settled, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        w = math::fnma(V(settled.step), math::div(s.m, c.root.corrected_outside(s.v)), w) * V(settled.shrink);
    }
};
static_assert(model_wise_rule<momo_adam>);
} // namespace gradstep
