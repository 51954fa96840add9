#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/schedule_free.hpp>

namespace gradstep {
/// Schedule-free SGD: SGD that needs no decaying learning rate, because it evaluates an average of
/// its weights. Defazio et al. 2024, arXiv:2405.15682, equations 2 to 4, with the weights of
/// section 4.2.
///
///     h <- max(h, lr)                                 the highest rate so far
///     s = t^step_power * h^rate_power
///     W <- W + s,    c = s / W                        c = 0 while all rates are 0
///     y <- y + c * (z - y) - lr * (1 - beta * (1 - c)) * g
///     z <- z - lr * g
///
/// The weight in memory is y, at which you take gradients. Evaluate
/// x = y + (1 - 1 / beta) * (z - y): `average()` returns it, `apply_average()` puts it in place
/// until you restore y, bit for bit. Use a constant rate, with `warmup`, which the weights of the
/// average take into account.
///
/// State: z, initially the weight. W and h, initially 0, are the clock's state: a checkpoint and
/// `clock()` contain them, and `seek` needs them. If you set weights later, z becomes the weight
/// (`updater::weights_set`). c does not depend on a constant rate_scale of a tensor. Ranges: 0 <
/// beta <= 1, 0 <= step_power, rate_power <= 16. The decay of the paper is `l2`. Regularizers that
/// change the weight itself (decoupled, clamp_weight, ...) are rejected: they would move y, and
/// leave z. Tables reject it: without gradient, y moves towards z. Other frameworks: equal to
/// schedulefree.SGDScheduleFree, where beta is `momentum`, step_power `r` and rate_power
/// `weight_lr_power`; optax.contrib.schedule_free_sgd has no step_power.
struct schedule_free_sgd {
    double beta = 0.9, step_power = 0, rate_power = 2;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta", &schedule_free_sgd::beta, ranges::constant(ranges::positive_share)},
                            hyperparameter{"step_power", &schedule_free_sgd::step_power, ranges::non_negative},
                            hyperparameter{"rate_power", &schedule_free_sgd::rate_power, ranges::non_negative}};
    GRADSTEP_INLINE void check() const {
        weights().check("schedule_free_sgd.step_power", "schedule_free_sgd.rate_power");
    }
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X z; };
    static constexpr std::array state_names{"z"};
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {w}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.z = w; }

    static constexpr std::array clock_state_names = detail::schedule_free_clock;
    GRADSTEP_INLINE clock_state advance(step_info now) const { return weights().advanced(now.state, now.t, now.rate); }

    template <class T> struct coeffs { schedule_free_terms<T> points; };
    template <class T> coeffs<T> prepare(step_info now) const { return {{weights().share(now), beta, now.rate}}; }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        c.points(w, s.z, g);
    }

    /// How to read the average x.
    template <class T> using reading = schedule_free_reading<T>;
    template <class T> reading<T> read(std::int64_t) const { return {T(1 - 1 / beta)}; }
    /// The average x, of the weight y and the slot z.
    template <class T, pack V> GRADSTEP_HD static V average_of(reading<T> x, V w, state<V> const& s) {
        return x(w, s.z);
    }

private:
    GRADSTEP_INLINE detail::step_weights weights() const { return {step_power, rate_power}; }
};
static_assert(rule<schedule_free_sgd>);
} // namespace gradstep
