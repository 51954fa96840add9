#pragma once
#include <gradstep/policy/concepts.hpp>
#include <gradstep/policy/hyperparameters.hpp>

// What the schedule-free rules share (Defazio et al. 2024, arXiv:2405.15682). The weight in memory
// is y = (1 - beta) * z + beta * x: z is where the steps of the base rule lead, x is the average of
// z, which is evaluated, and gradients are taken at y.
namespace gradstep::detail::inline GRADSTEP_ISA {
// The state of the clock: weight_sum, the weights of all steps so far, and highest_rate.
inline constexpr std::array schedule_free_clock{"weight_sum", "highest_rate"};

// The weights of the average: step t adds t^step_power * highest_rate^rate_power.
struct step_weights {
    double step_power, rate_power;

    GRADSTEP_INLINE double of(std::int64_t t, double highest_rate) const {
        if (highest_rate == std::numeric_limits<double>::min() && rate_power > 0) return 0;
        double const of_rate = rate_power == 2 ? highest_rate * highest_rate : std::pow(highest_rate, rate_power);
        return step_power == 0 ? of_rate : std::pow(static_cast<double>(t), step_power) * of_rate;
    }
    // The state after step t, whose base rule has this rate. While all rates are 0, the highest
    // rate is the smallest number, with weight 0: a state without any number tells a clock that
    // lacks it.
    GRADSTEP_INLINE clock_state advanced(clock_state const& before, std::int64_t t, double rate) const {
        double const highest = std::max({before[1], rate, std::numeric_limits<double>::min()});
        return {before[0] + of(t, highest), highest};
    }
    // c, the share of this step in all weights so far; 0 if there are none.
    GRADSTEP_INLINE double share(step_info now) const {
        double const all = now.state[0];
        return all > 0 ? of(now.t, now.state[1]) / all : 0;
    }
    GRADSTEP_INLINE void check(char const* step_power_name, char const* rate_power_name) const {
        constexpr double most = 16; // no weight and no sum of weights overflows in 2^63 steps
        for (auto const& [name, power] : {std::pair{step_power_name, step_power}, {rate_power_name, rate_power}})
            if (power > most) fail<value_error>({name}, {power, " is out of range"}, {"in [0, ", most, "]"});
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// A schedule-free step along u, as scalars of one step:
///
///     y <- y + c * (z - y) - lr * (1 - beta * (1 - c)) * u
///     z <- z - lr * u
///
/// and the average, x = y + (1 - 1 / beta) * (z - y).
template <class T> struct schedule_free_terms {
    T share, move, rate;

    schedule_free_terms() = default;
    GRADSTEP_INLINE schedule_free_terms(double c, double beta, double lr)
        : share(T(c)), move(T(lr * ((1 - beta) + beta * c))), rate(T(lr)) {}

    /// Moves both points.
    template <pack V> GRADSTEP_HD void operator()(V& y, V& z, V u) const {
        y = math::fnma(V(move), u, math::fma(V(share), z - y, y));
        z = math::fnma(V(rate), u, z);
    }
};

/// How to read the average x: the same for every step.
template <class T> struct schedule_free_reading {
    T beyond; // 1 - 1 / beta, not above 0

    /// x, from y and z.
    template <pack V> GRADSTEP_HD V operator()(V y, V z) const { return math::fma(V(beyond), z - y, y); }
};
} // namespace gradstep::inline GRADSTEP_ISA
