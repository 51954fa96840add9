#pragma once
#include <gradstep/number/power.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// FTRL-Proximal. McMahan et al. 2013 (KDD), Algorithm 1; alpha is the schedule's rate. It is exact
/// for any schedule.
///
///     n <- n + g^2,   q = (beta + n^(-lr_power)) / lr + l2,   h = g * sgn(w),   p = |w| * q
///     w != 0,  h < p:                    w <- w - g / q
///     w != 0,  p <= h <= p + 2 * l1:     w <- 0,  z <- sgn(w) * (h - p - l1)
///     w != 0,  h > p + 2 * l1:           w <- -(g - 2 * sgn(w) * l1 - w * q) / q
///     w  = 0:                            z <- z + g,  w <- |z| <= l1 ? 0 : -(z - sgn(z) * l1) / q
///     where w is not 0 then:             z <- -w * q - sgn(w) * l1
///
/// The paper's z <- z + g - (1/lr_t' - 1/lr_{t-1}') * w needs the rate of the step before
/// (lr' = lr / (beta + sqrt(n))). While w is not 0, the old z is a function of w, so this rate
/// cancels. This form therefore needs no memory of it and one square root less. It does not change
/// a weight at g = 0, bit for bit, and initial weights need no special z.
///
/// State: z, initially zero; n, initially initial_accumulator. If you set weights later
/// (`updater::weights_set`), z becomes 0, except for a weight of 0 with |z| <= l1. While the rate
/// is 0, no weight changes, and the z of a nonzero weight is infinite, as in the paper's formula.
/// Ranges: lr_power <= 0, all others >= 0; beta > 0 unless l2 > 0 or
/// initial_accumulator^(-lr_power) > 0, since q = 0 gives 0 / 0 for a weight without gradient. With
/// l2 = 0, a rate above 9e18 can still make q underflow to 0. The paper's lr_power is -0.5, the
/// square root. Any other power is the standard library's, and its last bits depend on the library.
/// Other frameworks: TensorFlow, Keras and Paddle use the current rate for all steps
/// (`constant_rate_ftrl`), beta = 0, an n that starts at 0.1, and count l2 twice.
struct ftrl {
    double l1 = 0, l2 = 0, beta = 1, lr_power = -0.5, initial_accumulator = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"l1", &ftrl::l1, ranges::constant(ranges::non_negative)},
        hyperparameter{"l2", &ftrl::l2, ranges::constant(ranges::non_negative)},
        hyperparameter{"beta", &ftrl::beta, ranges::constant(ranges::non_negative)},
        hyperparameter{"lr_power", &ftrl::lr_power, ranges::constant(ranges::not_positive)},
        hyperparameter{"initial_accumulator", &ftrl::initial_accumulator, ranges::constant(ranges::non_negative)}};
    // Z depends on a weight that a regularizer changes.
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op_if_weight_unchanged;

    template <class X> struct state { X z, n; };
    static constexpr std::array state_names{"z", "n"};
    static constexpr int newton_roots = 0;
    GRADSTEP_HD state<double> initial() const { return {0, initial_accumulator}; }
    // Only a weight of 0 reads z, and stays 0 if |z| <= l1.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const {
        V const zero(0), least = V(typename pack_traits<V>::value_type(l1));
        s.z = math::select((w == zero) & (math::abs(s.z) <= least), s.z, zero);
    }

    template <class T> struct coeffs {
        T l1, l2, beta, power, inverse_rate;
        GRADSTEP_INLINE bool is_default() const { return power == T(0.5); }
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        bool const moves = now.rate != 0 && 1 / now.rate <= std::numeric_limits<T>::max();
        if (!moves) return {T(l1), infinity, T(beta), T(-lr_power), T(0)}; // q infinite, without 0 * infinity
        return {T(l1), T(l2), T(beta), T(-lr_power), T(1 / now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = math::fma(g, g, s.n);
        step(c, math::power(s.n, c.power), w, g, s);
    }
    template <class T, pack V> GRADSTEP_HD static void apply_default(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.n = math::fma(g, g, s.n);
        step(c, math::sqrt(s.n), w, g, s);
    }
    /// The step, with root = n^(-lr_power).
    template <class T, pack V> GRADSTEP_HD static void step(coeffs<T> const& c, V root, V& w, V g, state<V>& s) {
        using namespace math;
        V const zero(0), l1(c.l1);
        w = select(s.z == s.z, w, s.z); // if w is not 0, nothing reads z, and a NaN in z would be lost
        V const q = fma(V(c.beta) + root, V(c.inverse_rate), V(c.l2));

        // The old z of a nonzero weight is a function of it: -w * q - sgn(w) * l1. The values below
        // are relative to the sign of the weight (or of the pull, if the weight is 0):
        // over = h - p, and e is the new z if the weight were now 0.
        auto const moved = w != zero;
        V const pull = select(moved, fnma(w, q, g), s.z + g), side = select(moved, w, pull);
        V const over = multiply_sign(pull, side), e = over - select(moved, l1, zero);
        // h >= p; false for NaN, which stays with its weight. Without gradient, h is 0 and p is
        // not, though p may underflow.
        auto const leaves = (over >= zero) & (select(moved, g, V(1)) != zero);
        V const beyond = multiply_sign(max(e - l1, zero), side);

        w = select(leaves, zero, w) - div(select(leaves, beyond, g), q);
        s.z = select(w == zero, multiply_sign(e, side), fnma(w, q, multiply_sign(-l1, w)));
    }

    GRADSTEP_INLINE void check() const {
        // A number below `normal` can be 0 in the kernel. From `least` on, its quotient by the rate
        // is not 0 for rates below 9e18.
        constexpr double normal = std::numeric_limits<float>::min(), least = 0x1p-63;
        double const root = std::pow(initial_accumulator < normal ? 0 : initial_accumulator, -lr_power);
        if (beta < least && l2 < normal && root < least)
            detail::fail<value_error>(
                {"ftrl.beta"}, {beta, " is out of range"},
                {"> 0, at least ", least,
                 ", unless initial_accumulator^(-lr_power) or l2 is, or a weight without gradient has 0 / 0 for its "
                 "step"});
    }
};
static_assert(rule<ftrl>);
} // namespace gradstep
