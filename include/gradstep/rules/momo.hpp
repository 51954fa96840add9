#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/momo_terms.hpp>

namespace gradstep {
/// MoMo: SGD with momentum, whose step size follows from the loss and a lower bound of it. Schaipp,
/// Ohana, Eickenberg, Defazio & Gower 2023, arXiv:2305.07583, Algorithm 1. With k = 1 + lr * decay
/// and c = 1 - beta^t with bias_correction, else 1:
///
///     m <- beta * m + (1 - beta) * g
///     loss_average <- beta * loss_average + (1 - beta) * loss
///     gamma <- beta * gamma + (1 - beta) * <g, w>                products and norms of the whole model
///     h = k * (loss_average - c * lower_bound - gamma) + <m, w>
///     step = min(lr / c, max(h, 0) / |m|^2)                      0 if |m| = 0
///     w <- (w - step * m) / k
///
/// Without bias_correction the averages begin with the first gradient and loss. With
/// adapt_lower_bound, the bound is estimated. Before h, with cap = k * (loss_average - gamma) + <m,
/// w>, it becomes max(cap / (2 * k * c), the given bound) if cap < k * c * lower_bound. After the
/// step it becomes max((loss_average + <m, w> - gamma - step / 2 * |m|^2) / c, the given bound).
///
/// Each step needs its loss: step_options::loss. The learning rate is an upper limit of the step
/// size, so choose a large one. decay is the weight decay; it is part of the step size, so
/// regularizers that change the weight itself (decoupled, after_step, cautious_decay, proximal,
/// clamp_weight) are rejected. With a rate_scale, a tensor takes a multiple of the step.
///
/// State: m, initially zero. loss_average, gamma and lower_bound are the clock's state: a
/// checkpoint and `clock()` contain them, and `seek` needs them. Ranges: 0 <= beta < 1, lower_bound
/// finite, decay >= 0. Model-wise: one call of a step is a whole model. Tables, averages around the
/// rule and sharded training reject it.
/// Other frameworks: equal to Momo of the authors' package momo-opt, and without decay to
/// optax.contrib.momo, which shrinks the weight before the step instead of after it.
struct momo {
    double beta = 0.9, lower_bound = 0, decay = 0;
    bool bias_correction = false, adapt_lower_bound = false;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta", &momo::beta, ranges::fraction},
                            hyperparameter{"lower_bound", &momo::lower_bound, ranges::constant(ranges::finite)},
                            hyperparameter{"decay", &momo::decay, ranges::non_negative},
                            hyperparameter{"bias_correction", &momo::bias_correction},
                            hyperparameter{"adapt_lower_bound", &momo::adapt_lower_bound}};
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};

    static constexpr std::array clock_state_names = detail::momo_clock;
    static constexpr bool clock_state_is_signed = true;
    GRADSTEP_INLINE clock_state advance(step_info now) const { return detail::momo_terms::advanced(now, lower_bound); }

    template <class T> struct coeffs { moving_average<T> first; };
    template <class T> coeffs<T> prepare(step_info now) const { return {moving_average<T>(beta_of(now.state))}; }

    template <class X> struct partial_sums { X along, norm, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V w, V g, state<V> const& s) {
        V const m = c.first(s.m, g);
        return {math::wide_product(m, w), math::wide_square(m), math::wide_product(g, w)};
    }
    GRADSTEP_INLINE clock_state settle(std::int64_t t, clock_state const& before, partial_sums<double> const& sums,
                                       double loss) const {
        detail::momo_terms const terms{beta_of(before), lower_bound, decay, adapt_lower_bound,
                                       bias_correction ? detail::bias(beta, t) : 1};
        return terms.settled(before, sums.along, sums.norm, sums.gradient, loss);
    }
    template <class X> using settled = momo_step<X>;
    template <class T> momo_step<T> finalize(step_info now, clock_state const& after) const {
        return {finite_number<T>(detail::momo_terms::step_of(now, after)), T(1 / (1 + math::mul(now.rate, decay)))};
    }
    template <class T, pack V>
    GRADSTEP_HD static void apply(coeffs<T> const& c, momo_step<T> settled, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        w = math::fnma(V(settled.step), s.m, w) * V(settled.shrink);
    }

private:
    // 0 in the first step, with whose numbers the averages begin.
    GRADSTEP_INLINE double beta_of(clock_state const& before) const {
        return !bias_correction && before[0] == detail::no_loss_yet ? 0 : beta;
    }
};
static_assert(model_wise_rule<momo>);
} // namespace gradstep
