#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/schedule_free.hpp>

namespace gradstep {
/// Schedule-free RAdam: `schedule_free_adam` with the rectification of `radam` as its warm-up, so
/// that the schedule needs none. The `schedulefree` package, RAdamScheduleFree; Defazio et al.
/// 2024, arXiv:2405.15682, with Liu et al. 2020, arXiv:1908.03265.
///
///     rho_inf = 2 / (1 - beta2) - 1,    rho = rho_inf - 2 * t * beta2^t / (1 - beta2^t)
///     rho > 4:    r = sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
///                 q = lr * r
///     else:       q = 0, or lr with sgd_phase
///     h <- max(h, q)                                  the highest of these rates so far
///     s = t^step_power * h^rate_power
///     W <- W + s,    c = s / W                        c = 0 while all rates are 0
///     v <- beta2 * v + (1 - beta2) * g^2
///     rho > 4:    u = g / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * y
///     else:       u = g + decay * y
///     y <- y + c * (z - y) - q * (1 - beta1 * (1 - c)) * u
///     z <- z - q * u
///
/// The weight in memory is y, and x = y + (1 - 1 / beta1) * (z - y) is evaluated, as in
/// `schedule_free_adam`. With beta2 = 0.999, the first 4 steps change v only, or are steps of SGD
/// with sgd_phase.
///
/// State: z, initially the weight; v, initially zero. W and h, initially 0, are the clock's state.
/// If you set weights later, z becomes the weight (`updater::weights_set`). Ranges, decay,
/// regularizers and tables as in `schedule_free_adam`; beta2 > 0.6, below which rho never exceeds
/// 4.
/// Other frameworks: equal to schedulefree.RAdamScheduleFree, where decay is `weight_decay`,
/// step_power `r`, rate_power `weight_lr_power`, and sgd_phase the opposite of `silent_sgd_phase`.
struct schedule_free_radam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0, step_power = 0, rate_power = 2;
    bool sgd_phase = false;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &schedule_free_radam::beta1, ranges::constant(ranges::positive_share)},
        hyperparameter{"beta2", &schedule_free_radam::beta2, ranges::fraction},
        hyperparameter{"epsilon", &schedule_free_radam::epsilon, ranges::non_negative},
        hyperparameter{"decay", &schedule_free_radam::decay, ranges::non_negative},
        hyperparameter{"step_power", &schedule_free_radam::step_power, ranges::non_negative},
        hyperparameter{"rate_power", &schedule_free_radam::rate_power, ranges::non_negative},
        hyperparameter{"sgd_phase", &schedule_free_radam::sgd_phase}};
    GRADSTEP_INLINE void check() const {
        weights().check("schedule_free_radam.step_power", "schedule_free_radam.rate_power");
        if (!(longest() > 4))
            detail::fail<value_error>({"schedule_free_radam.beta2"}, {beta2, " is out of range"}, {"in (0.6, 1)"});
    }
    static constexpr bool counts_steps = true, takes_gradients_only = true;

    template <class X> struct state { X z, v; };
    static constexpr std::array state_names{"z", "v"};
    static constexpr int newton_roots = 1;
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const { return {w, V(0)}; }
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const { s.z = w; }

    static constexpr std::array clock_state_names = detail::schedule_free_clock;
    GRADSTEP_INLINE clock_state advance(step_info now) const {
        return weights().advanced(now.state, now.t, now.rate * rectification(now.t).factor);
    }

    template <class T> struct coeffs {
        moving_average<T> second;
        root_terms<T> root;
        T decay, rectifies; // 1; 0 if v is not used
        schedule_free_terms<T> points;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        auto const at = rectification(now.t);
        return {moving_average<T>(beta2),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t)},
                T(decay),
                T(at.rectifies),
                {weights().share(now), beta1, now.rate * at.factor}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.v = c.second.of_square(s.v, g);
        auto const rectifies = (V(c.rectifies) != V(0)) | (s.v != s.v); // NaN must not be ignored
        V const root = math::select(rectifies, c.root.corrected_outside(s.v), V(1));
        c.points(w, s.z, math::fma(V(c.decay), w, math::div(g, root)));
    }

    /// How to read the average x.
    template <class T> using reading = schedule_free_reading<T>;
    template <class T> reading<T> read(std::int64_t) const { return {T(1 - 1 / beta1)}; }
    /// The average x, of the weight y and the slot z.
    template <class T, pack V> GRADSTEP_HD static V average_of(reading<T> x, V w, state<V> const& s) {
        return x(w, s.z);
    }

private:
    struct rectified {
        bool rectifies;
        double factor;
    }; // of the rate

    GRADSTEP_INLINE double longest() const { return 2 / (1 - beta2) - 1; }
    GRADSTEP_INLINE rectified rectification(std::int64_t t) const {
        double const bias = detail::bias(beta2, t), all = longest();
        double const length = all - 2 * static_cast<double>(t) * (1 - bias) / bias;
        if (!(length > 4)) return {false, sgd_phase ? 1.0 : 0.0};
        return {true, std::sqrt((length - 4) * (length - 2) * all / ((all - 4) * (all - 2) * length))};
    }
    GRADSTEP_INLINE detail::step_weights weights() const { return {step_power, rate_power}; }
};
static_assert(rule<schedule_free_radam>);
} // namespace gradstep
