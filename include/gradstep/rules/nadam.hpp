#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// NAdam: Adam with Nesterov's look-ahead and a momentum schedule. Dozat 2016, "Incorporating
/// Nesterov momentum into Adam", ICLR workshop.
///
///     mu_t = beta1 * (1 - 0.5 * 0.96^(momentum_decay * t)),    P_t = mu_1 * mu_2 * ... * mu_t
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2
///     w <- w - lr * (mu_{t+1} * m / (1 - P_{t+1}) + (1 - mu_t) * g / (1 - P_t)) / root
///
/// root as in `adam`, by epsilon_place:
///
///     sqrt(v / (1 - beta2^t)) + epsilon,  sqrt(v / (1 - beta2^t) + epsilon),
///     or (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
///
/// P_t is a pure function of t, so that resuming needs no saved product:
///
///     log P_t = t * log(beta1) + sum_{i=1..t} log(1 - 0.5 * q^i),    q = 0.96^momentum_decay
///             = t * log(beta1) - sum_{k=1..} 0.5^k / k * q^k * (1 - q^(k * t)) / (1 - q^k)
///
/// bias_correction = false: 1 in place of 1 - P_t, 1 - P_{t+1} and 1 - beta2^t.
///
/// State: m, v, initially zero. Ranges: as in `adam`, momentum_decay >= 0.
/// Other frameworks: momentum_decay is 0.004 in the paper (0.96^(t / 250)), torch and Paddle, and 1
/// in Keras.
struct nadam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, momentum_decay = 0.004;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    bool bias_correction = true;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"beta1", &nadam::beta1, ranges::constant(ranges::fraction)},
        hyperparameter{"beta2", &nadam::beta2, ranges::fraction},
        hyperparameter{"epsilon", &nadam::epsilon, ranges::non_negative},
        hyperparameter{"momentum_decay", &nadam::momentum_decay, ranges::constant(ranges::non_negative)},
        hyperparameter{"epsilon_place", &nadam::epsilon_place, epsilon_positions::corrected},
        hyperparameter{"bias_correction", &nadam::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    static constexpr int newton_roots = 1;
    static constexpr std::array code_maps{code_map::both_signs, code_map::one_sign};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    /// mu_t.
    GRADSTEP_INLINE double momentum_at(double t) const {
        return beta1 * (1 - 0.5 * std::pow(0.96, momentum_decay * t));
    }
    /// P_t, with 55 terms of the series: the next term is below 2^-55 of the first.
    GRADSTEP_INLINE double momentum_product(double t) const {
        if (beta1 == 0) return 0;
        double const log_q = momentum_decay * std::log(0.96);
        double sum = 0, weight = 1;
        for (int k = 1; k <= 55; ++k) {
            weight /= 2;
            double const x = k * log_q, powers = x == 0 ? t : std::expm1(x * t) / std::expm1(x);
            sum += weight / k * std::exp(x) * powers;
        }
        return std::exp(std::fma(t, std::log(beta1), -sum));
    }
    /// 1 - P_t, or 1 without bias correction.
    GRADSTEP_INLINE double weight(double t) const { return bias_correction ? 1 - momentum_product(t) : 1; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T of_m, of_g;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        auto const t = static_cast<double>(now.t);
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(now.rate * momentum_at(t + 1) / weight(t + 1)),
                T(now.rate * (1 - momentum_at(t)) / weight(t)),
                {epsilon, epsilon_place, detail::bias(beta2, now.t, bias_correction)}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        w = w - math::div(math::fma(V(c.of_m), s.m, V(c.of_g) * g), c.root.corrected(s.v));
    }
};
static_assert(rule<nadam>);
} // namespace gradstep
