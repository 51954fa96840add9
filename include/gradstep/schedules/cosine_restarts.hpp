#pragma once
#include <gradstep/policy/anneal.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Half a cosine from `rate` to `end`, repeated (SGDR). Loshchilov & Hutter 2017, arXiv:1608.03983,
/// eq. 5. Cycle i = 0, 1, ... takes steps * multiply^i steps and starts at
/// end + (rate - end) * decay^i:
///
///     end + (rate - end) * decay^i / 2 * (1 + cos(pi * x)),  x in [0, 1): the progress in the cycle
///
/// t counts steps from 0. If `multiply` is a whole number, restarts are at the exact step for any
/// t; otherwise a cycle starts between two steps. Ranges: rate, end, decay >= 0; steps >= 1;
/// multiply >= 1; decay <= 1 if rate < end, since the growing depth below `end` would become
/// negative. `decay` is Keras' m_mul, which applies to the height above `end`; torch has none.
struct cosine_restarts {
    double rate = missing;
    std::int64_t steps = missing_count;
    double end = 0, multiply = 1, decay = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate", &cosine_restarts::rate, ranges::non_negative},
                            hyperparameter{"steps", &cosine_restarts::steps, ranges::positive_count},
                            hyperparameter{"end", &cosine_restarts::end, ranges::non_negative},
                            hyperparameter{"multiply", &cosine_restarts::multiply, ranges::at_least_one},
                            hyperparameter{"decay", &cosine_restarts::decay, ranges::non_negative}};

    GRADSTEP_INLINE double operator()(clock now) const {
        if (rate == end) return end; // also if a decay above 1 has an infinite power
        auto const [cycle, x] = position_at(now.step);
        double const height = (rate - end) * std::pow(decay, cycle);
        return std::fma(height / 2, 1 + std::cos(std::numbers::pi * x), end);
    }
    GRADSTEP_INLINE void check() const {
        if (decay > 1 && rate < end)
            detail::fail<value_error>(
                {"cosine_restarts.decay"}, {decay, " is out of range"},
                {"<= 1 where rate = ", rate, " is below end = ", end, ", or rates become negative"});
    }

private:
    struct position {
        double cycle, x;
    };
    GRADSTEP_INLINE position position_at(std::int64_t t) const {
        if (multiply == 1) return {static_cast<double>(t / steps), detail::ratio(t % steps, steps)};
        constexpr auto longest = std::numeric_limits<std::int64_t>::max();
        if (multiply >= static_cast<double>(longest)) return among_whole(t, longest);
        auto const whole = static_cast<std::int64_t>(multiply);
        return static_cast<double>(whole) == multiply ? among_whole(t, whole) : among_broken(t);
    }
    // Each cycle is at least twice as long as the one before, so there are at most 63.
    GRADSTEP_INLINE position among_whole(std::int64_t t, std::int64_t factor) const {
        constexpr auto longest = std::numeric_limits<std::int64_t>::max();
        double cycle = 0;
        for (std::int64_t length = steps; t >= length; ++cycle) {
            t -= length;
            length = length > longest / factor ? longest : length * factor;
        }
        return {cycle, static_cast<double>(t) / (static_cast<double>(steps) * std::pow(multiply, cycle))};
    }
    // Cycle i begins at (multiply^i - 1) / (multiply - 1) times the length of the first.
    GRADSTEP_INLINE position among_broken(std::int64_t t) const {
        double const u = detail::ratio(t, steps), growth = multiply - 1;
        auto const begin = [&](double i) GRADSTEP_INLINE_LAMBDA { return std::expm1(i * std::log1p(growth)) / growth; };
        double cycle = std::floor(std::log1p(growth * u) / std::log1p(growth));
        if (u < begin(cycle)) --cycle; // the logarithms are rounded
        else if (u >= begin(cycle + 1)) ++cycle;
        return {cycle, (u - begin(cycle)) / std::pow(multiply, cycle)};
    }
};
} // namespace gradstep
