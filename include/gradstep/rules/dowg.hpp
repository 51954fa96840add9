#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// DoWG, distance over weighted gradients: as dog, with gradients that weigh as much as the
/// distance at their time. Khaled, Mishchenko & Jin 2023, arXiv:2305.16284, Algorithm 1.
///
///     squared_distance <- max(squared_distance, |w - x0|^2)           norms over the whole model
///     weighted_squares <- weighted_squares + squared_distance * |g|^2
///     w <- w - lr * squared_distance / (sqrt(weighted_squares) + epsilon) * g
///
/// Use the schedule `constant{1}`. State: x0, the initial weight. If you set weights later, x0
/// becomes the weight (`updater::weights_set`). squared_distance, initially `initial`, and
/// weighted_squares, initially 0, are the clock's state: a checkpoint and `clock()` contain them,
/// and `seek` needs them. Ranges: initial > 0, epsilon >= 0. Weight decay is `l2`; decoupled,
/// after_step, cautious_decay, proximal and clamp_weight are rejected, as by dog. Model-wise: one
/// call of a step is a whole model. Tables, averages around the rule and sharded training reject
/// it.
/// Other frameworks: equal to optax.contrib.dowg, where initial is `init_estim_sq_dist`, by default
/// its eps. The paper has no epsilon.
struct dowg {
    double initial = 1e-4, epsilon = 1e-4;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial", &dowg::initial, ranges::constant(ranges::positive)},
                            hyperparameter{"epsilon", &dowg::epsilon, ranges::non_negative}};
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X x0; };
    static constexpr std::array state_names{"x0"};
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.x0 = w; }

    static constexpr std::array clock_state_names{"squared_distance", "weighted_squares"};
    GRADSTEP_INLINE clock_state advance(step_info now) const {
        return now.t == 1 ? clock_state{initial, 0} : now.state;
    }

    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(step_info) const { return {}; }

    template <class X> struct partial_sums { X distance, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V w, V g, state<V> const& s) {
        return {math::wide_square(w - s.x0), math::wide_square(g)};
    }
    // The third number is the step size.
    GRADSTEP_INLINE clock_state settle(std::int64_t, clock_state const& before,
                                       partial_sums<double> const& sums) const {
        double const distance = std::max(before[0], sums.distance);
        double const squares = before[1] + math::mul(distance, sums.gradient);
        double const below = std::max(std::sqrt(squares) + epsilon, std::numeric_limits<double>::min());
        return {distance, squares, finite_quotient(distance, below)};
    }
    template <class T> T finalize(step_info now, clock_state const& after) const {
        return finite_number<T>(now.rate * after[2]);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = math::fnma(V(settled), g, w);
    }
};
static_assert(model_wise_rule<dowg>);
} // namespace gradstep
