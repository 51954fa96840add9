#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/schedule_free.hpp>

namespace gradstep {
/// Schedule-free AdamW: Adam that needs no decaying learning rate, because it evaluates an average
/// of its weights, which also replaces the first moment. Defazio et al. 2024, arXiv:2405.15682,
/// Algorithm 1.
///
///     h <- max(h, lr)                                 the highest rate so far
///     s = t^step_power * h^rate_power
///     W <- W + s,    c = s / W                        c = 0 while all rates are 0
///     v <- beta2 * v + (1 - beta2) * g^2
///     u = g / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * y
///     y <- y + c * (z - y) - lr * (1 - beta1 * (1 - c)) * u
///     z <- z - lr * u
///
/// The weight in memory is y, at which you take gradients. Evaluate
/// x = y + (1 - 1 / beta1) * (z - y): `average()` returns it, `apply_average()` puts it in place
/// until you restore y, bit for bit. Use a constant rate, with `warmup`, which the weights of the
/// average take into account.
///
/// State: z, initially the weight; v, initially zero. W and h, initially 0, are the clock's state:
/// a checkpoint and `clock()` contain them, and `seek` needs them. If you set weights later, z
/// becomes the weight (`updater::weights_set`). c does not depend on a constant rate_scale of a
/// tensor. Ranges: 0 < beta1 <= 1, 0 <= beta2 < 1, epsilon and decay >= 0,
/// 0 <= step_power, rate_power <= 16. The decay is part of u, so no regularizer can replace it, and
/// `decay = false` of a tensor does not leave it out. Regularizers that change the weight itself
/// (decoupled, clamp_weight, ...) are rejected: they would move y, and leave z. Tables reject the
/// rule: without gradient, y moves towards z.
/// Other frameworks: equal to schedulefree.AdamWScheduleFree, where decay is `weight_decay`,
/// step_power `r` and rate_power `weight_lr_power`. The paper, and schedulefree's "paper" version,
/// put the bias correction into the rate. optax.contrib.schedule_free_adamw has no step_power.
struct schedule_free_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0, step_power = 0, rate_power = 2;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &schedule_free_adam::beta1, ranges::constant(ranges::positive_share)},
        hyperparameter{"beta2", &schedule_free_adam::beta2, ranges::fraction},
        hyperparameter{"epsilon", &schedule_free_adam::epsilon, ranges::non_negative},
        hyperparameter{"decay", &schedule_free_adam::decay, ranges::non_negative},
        hyperparameter{"step_power", &schedule_free_adam::step_power, ranges::non_negative},
        hyperparameter{"rate_power", &schedule_free_adam::rate_power, ranges::non_negative}};
    GRADSTEP_INLINE void check() const {
        weights().check("schedule_free_adam.step_power", "schedule_free_adam.rate_power");
    }
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X z, v; };
    static constexpr std::array state_names{"z", "v"};
    static constexpr int newton_roots = 1;
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {w, V(0)}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.z = w; }

    static constexpr std::array clock_state_names = detail::schedule_free_clock;
    GRADSTEP_INLINE clock_state advance(step_info now) const { return weights().advanced(now.state, now.t, now.rate); }

    template <class T> struct coeffs {
        moving_average<T> second;
        root_terms<T> root;
        T decay;
        schedule_free_terms<T> points;
        GRADSTEP_INLINE bool is_default() const { return decay == T(0); }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta2),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t)},
                T(decay),
                {weights().share(now), beta1, now.rate}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.v = c.second.of_square(s.v, g);
        c.points(w, s.z, math::fma(V(c.decay), w, math::div(g, c.root.corrected_outside(s.v))));
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.v = c.second.of_square(s.v, g);
        c.points(w, s.z, math::div(g, c.root.corrected_outside(s.v)));
    }

    /// How to read the average x.
    template <class T> using reading = schedule_free_reading<T>;
    template <class T> reading<T> read(std::int64_t) const { return {T(1 - 1 / beta1)}; }
    /// The average x, of the weight y and the slot z.
    template <class T, pack V> GRADSTEP_HD static V average_of(reading<T> x, V w, state<V> const& s) {
        return x(w, s.z);
    }

private:
    GRADSTEP_INLINE detail::step_weights weights() const { return {step_power, rate_power}; }
};
static_assert(rule<schedule_free_adam>);
} // namespace gradstep
