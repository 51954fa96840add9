#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// What `initial` of dog is.
enum class dog_start {
    relative_distance, ///< the initial distance, divided by 1 + |x0|
    distance,          ///< the initial distance
    step_size,         ///< the step size of the first step; the initial distance is 0
};
template <> inline constexpr std::array enumerators<dog_start>{"relative_distance", "distance", "step_size"};

/// DoG, distance over gradients: SGD that computes its step size from how far it has moved. Ivgi,
/// Hinder & Carmon 2023, arXiv:2302.12022, equation (3).
///
///     max_distance <- max(max_distance, |w - x0|)             norms over the whole model
///     squares <- squares + |g|^2
///     w <- w - lr * max_distance / sqrt(squares + epsilon) * g
///
/// In step 1, max_distance is initial * (1 + |x0|). With initial_is = distance it is `initial`.
/// With step_size it is 0, and step 1 is w <- w - lr * initial * g. Use the schedule `constant{1}`,
/// and evaluate an average of the weights (gs::averager), without which the authors do not
/// recommend DoG.
///
/// State: x0, the initial weight. If you set weights later, x0 becomes the weight
/// (`updater::weights_set`). max_distance and squares, initially 0, are the clock's state: a
/// checkpoint and `clock()` contain them, and `seek` needs them. Ranges: initial > 0, epsilon >= 0.
/// Weight decay is `l2`; regularizers that change the weight itself (decoupled, after_step,
/// cautious_decay, proximal, clamp_weight) are rejected, since their rate would not be the step
/// size, and what they move would count as distance. Model-wise: one call of a step is a whole
/// model. Tables, averages around the rule and sharded training reject it.
/// Other frameworks: equal to optax.contrib.dog, and to dog.DoG of the authors' package, where
/// initial is `reps_rel`, or `init_eta` for step_size, which lr does not scale there. The package
/// has one distance and one sum for each parameter group; here all tensors of a call have one.
struct dog {
    double initial = 1e-6, epsilon = 1e-8;
    dog_start initial_is = dog_start::relative_distance;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"initial", &dog::initial, ranges::constant(ranges::positive)},
        hyperparameter{"epsilon", &dog::epsilon, ranges::non_negative}, hyperparameter{"initial_is", &dog::initial_is}};
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X x0; };
    static constexpr std::array state_names{"x0"};
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.x0 = w; }

    static constexpr std::array clock_state_names{"max_distance", "squares"};
    GRADSTEP_INLINE clock_state advance(step_info now) const { return now.t == 1 ? at_start : now.state; }

    // `from` is 1, or 0 while the weight is x0; the first sum is then |x0|^2.
    template <class T> struct coeffs { T from; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.state == at_start ? 0 : 1)}; }

    template <class X> struct partial_sums { X distance, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V w, V g, state<V> const& s) {
        return {math::wide_square(math::fnma(V(c.from), s.x0, w)), math::wide_square(g)};
    }
    // The third number is the step size.
    GRADSTEP_INLINE clock_state settle(std::int64_t, clock_state const& before,
                                       partial_sums<double> const& sums) const {
        double const norm = std::sqrt(sums.distance), squares = before[1] + sums.gradient;
        double distance = std::max(before[0], norm);
        if (before == at_start) {
            if (initial_is == dog_start::step_size) return {at_start[0], squares, initial};
            distance = initial_is == dog_start::distance ? initial : initial * (1 + norm);
        }
        double const root = std::max(std::sqrt(squares + epsilon), at_start[0]);
        return {distance, squares, distance == at_start[0] ? 0 : finite_quotient(distance, root)};
    }
    template <class T> T finalize(step_info now, clock_state const& after) const {
        return finite_number<T>(now.rate * after[2]);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = math::fnma(V(settled), g, w);
    }

private:
    // Before the first gradient. The distance is the smallest number instead of 0: a state without
    // any number tells a clock that lacks it.
    static constexpr clock_state at_start{std::numeric_limits<double>::min()};
};
static_assert(model_wise_rule<dog>);
} // namespace gradstep
