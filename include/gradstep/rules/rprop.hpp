#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Rprop: a step size for each weight, which grows while the gradient keeps its sign and shrinks
/// when it changes. Riedmiller & Braun 1993, "A direct adaptive method for faster backpropagation
/// learning", in the form iRprop- of Igel & Huesken 2003, which takes no step back:
///
///     s = sgn(g) * sgn(p)
///     s > 0:   eta <- min(grow * eta, largest_step)
///     s < 0:   eta <- max(shrink * eta, smallest_step),   g <- 0
///     w <- w - lr * eta * sgn(g)                          sgn(0) = 0
///     p <- g
///
/// State: eta, initially initial_step; p, the previous gradient, initially zero. The product of the
/// signs decides: a product of gradients could underflow. An eta outside the limits, from
/// initial_step or a saved state, comes back between them when it changes. NaN in a gradient
/// reaches the weight.
/// Ranges: 0 < shrink < 1 <= grow; smallest_step >= 0; initial_step, largest_step > 0. The rule is
/// for whole batches: noise changes signs. Without gradient, eta and the weight do not change, and
/// p becomes 0, so tables catch up exactly.
/// Other frameworks: the learning rate of torch and Paddle is only the start of eta; set it as
/// initial_step, with the schedule constant{1}. optax 0.2.8 takes each step one step late.
struct rprop {
    double initial_step = 0.01, shrink = 0.5, grow = 1.2, smallest_step = 1e-6, largest_step = 50;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"initial_step", &rprop::initial_step, ranges::constant(ranges::positive)},
                            hyperparameter{"shrink", &rprop::shrink, ranges::positive_fraction},
                            hyperparameter{"grow", &rprop::grow, ranges::at_least_one},
                            hyperparameter{"smallest_step", &rprop::smallest_step, ranges::non_negative},
                            hyperparameter{"largest_step", &rprop::largest_step, ranges::positive}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state { X eta, p; };
    static constexpr std::array state_names{"eta", "p"};
    GRADSTEP_HD state<double> initial() const { return {initial_step, 0}; }
    GRADSTEP_INLINE state<double> decay() const { return {1, 0}; }

    template <class T> struct coeffs { T rate, shrink, grow, smallest, largest; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(now.rate), T(shrink), T(grow), T(smallest_step), T(largest_step)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        using math::max, math::min, math::mul, math::select;
        V const signs = mul(math::sign(g), math::sign(s.p)), zero(0);
        V const factor = select(signs > zero, V(c.grow), select(signs < zero, V(c.shrink), signs)); // NaN stays
        V const changed = max(min(mul(factor, s.eta), V(c.largest)), V(c.smallest));
        s.eta = select(signs == zero, s.eta, changed);
        s.p = select(signs < zero, zero, g);
        w = math::fnma(V(c.rate) * s.eta, math::sign(s.p), w);
    }
};
static_assert(rule<rprop>);
} // namespace gradstep
