#pragma once
#include <gradstep/base/compiler.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/concepts.hpp>

// What the MoMo rules share (Schaipp et al. 2023, arXiv:2305.07583): a step size from a model of
// the loss, whose value and gradient are moving averages.
namespace gradstep::detail::inline GRADSTEP_ISA {
// The state of the clock; the fourth number is the rate of the updater before the sums, and the
// step size after them.
inline constexpr std::array momo_clock{"loss_average", "gamma", "lower_bound"};

// loss_average before the first step: the smallest number, which counts as 0. Later it is not 0, so
// that a state without any number tells a clock that lacks it.
inline constexpr double no_loss_yet = std::numeric_limits<double>::min();

struct momo_terms {
    double beta, lower_bound, decay;
    bool adapt_lower_bound;
    double correction; // 1 - beta^t with bias correction, else 1

    GRADSTEP_INLINE static clock_state advanced(step_info now, double lower_bound) {
        clock_state out = now.state;
        if (now.t == 1) out = {no_loss_yet, 0, lower_bound};
        out[3] = now.rate;
        return out;
    }
    // The state after a step, from <m, w>, the squared norm of m, <g, w>, and the loss.
    GRADSTEP_INLINE clock_state settled(clock_state const& before, double along, double norm, double gradient,
                                        double loss) const {
        double const rate = before[3], shrink = 1 + math::mul(rate, decay);
        double const average = math::mul(beta, before[0]) + math::mul(1 - beta, loss);
        double const gamma = math::mul(beta, before[1]) + math::mul(1 - beta, gradient);
        double least = before[2];
        if (adapt_lower_bound) {
            double const cap = math::mul(shrink, average - gamma) + along;
            if (cap < shrink * correction * least) least = std::max(cap / (2 * shrink * correction), lower_bound);
        }
        double const above = math::mul(shrink, (average - math::mul(correction, least)) - gamma) + along;
        double const step = norm == 0 ? 0 : std::min(rate / correction, finite_quotient(std::max(above, 0.0), norm));
        if (adapt_lower_bound)
            least = std::max((((average + along) - gamma) - math::mul(step / 2, norm)) / correction, lower_bound);
        return {average == 0 ? -no_loss_yet : average, gamma, least, step};
    }
    // The step size of a tensor, whose rate is a multiple of the updater's.
    GRADSTEP_INLINE static double step_of(step_info now, clock_state const& after) {
        double const rate = now.state[3];
        return rate == 0 ? 0 : now.rate == rate ? after[3] : after[3] * (now.rate / rate);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// What all elements of a tensor share in a step of MoMo: the step size, and 1 / (1 + lr * decay).
template <class T> struct momo_step { T step, shrink; };
} // namespace gradstep::inline GRADSTEP_ISA
