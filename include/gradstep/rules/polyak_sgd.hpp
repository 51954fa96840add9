#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Whether polyak_sgd takes steps while the loss is below f_min.
enum class polyak_variant {
    sps,      ///< backwards, as the formula says
    sps_plus, ///< none: max(loss - f_min, 0)
};
template <> inline constexpr std::array enumerators<polyak_variant>{"sps", "sps_plus"};

/// SGD with the step size of Polyak 1987, as Loizou et al. 2021, arXiv:2002.10542, use it for
/// stochastic gradients. Each step needs its loss: step_options::loss.
///
///     w <- w - lr * min((loss - f_min) / (|g|^2 + epsilon), max_learning_rate) * g
///
/// The norm is over the whole model. If |g|^2 + epsilon is 0, the step is 0. With variant sps_plus,
/// the difference is at least 0 (Garrigos et al. 2023, arXiv:2307.14528). Use the schedule
/// `constant{1}`.
///
/// No state. Ranges: f_min finite, max_learning_rate > 0 or infinite, epsilon >= 0. Weight decay is
/// `l2`; decoupled, after_step, cautious_decay, proximal and clamp_weight are rejected, as by dog.
/// Model-wise: one call of a step is a whole model. Tables, averages around the rule and sharded
/// training reject it.
/// Other frameworks: equal to optax.scale_by_polyak, which takes no step while |g|^2 + eps is at
/// most the machine epsilon. optax.polyak_sgd multiplies g by its `scaling` before it takes the
/// norm.
struct polyak_sgd {
    double f_min = 0, max_learning_rate = 1, epsilon = 0;
    polyak_variant variant = polyak_variant::sps;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"f_min", &polyak_sgd::f_min, ranges::finite},
        hyperparameter{"max_learning_rate", &polyak_sgd::max_learning_rate, ranges::positive_or_infinite},
        hyperparameter{"epsilon", &polyak_sgd::epsilon, ranges::non_negative},
        hyperparameter{"variant", &polyak_sgd::variant}};
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};

    static constexpr std::array<char const*, 0> clock_state_names{};
    GRADSTEP_INLINE clock_state advance(step_info) const { return {}; }

    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(step_info) const { return {}; }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {math::wide_square(g)};
    }
    // The first number is the step size.
    GRADSTEP_INLINE clock_state settle(std::int64_t, clock_state const&, partial_sums<double> const& sums,
                                       double loss) const {
        double const gap = variant == polyak_variant::sps_plus ? std::max(loss - f_min, 0.0) : loss - f_min;
        double const below = sums.squares + epsilon;
        return {below == 0 ? 0 : std::min(finite_quotient(gap, below), max_learning_rate)};
    }
    template <class T> T finalize(step_info now, clock_state const& after) const {
        double const most = largest_number<T>;
        return T(std::clamp(now.rate * after[0], -most, most));
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = math::fnma(V(settled), g, w);
    }
};
static_assert(model_wise_rule<polyak_sgd>);
} // namespace gradstep
