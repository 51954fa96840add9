#pragma once
#include <gradstep/number/power.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// FTRL-Proximal as TensorFlow, Keras, Paddle and others compute it: with the current rate for
/// earlier steps too. Correct for a constant rate only; under a decaying schedule it drives weights
/// to 0. For the exact form see `ftrl`.
///
///     p = -lr_power,    n' = n + g^2,    s = (n'^p - n^p) / lr
///     z <- z + (g + 2 * l2_shrinkage * w) - s * w
///     w <- |z| <= l1 ? 0 : (sgn(z) * l1 - z) / ((beta + n'^p) / lr + l2)
///     n <- n'
///
/// McMahan et al. 2013 (KDD), Algorithm 1, is beta = 1, lr_power = -0.5. State: z, initially zero
/// for any weight, so that the first step forgets the initial weight; n, initially
/// initial_accumulator. If you set weights later (`updater::weights_set`), z becomes the largest
/// number, except for a weight of 0. The next step replaces it by the z that belongs to the weight:
///
///     z = -w * ((beta + n^p) / lr + l2) - sgn(w) * l1
///
/// Ranges: l1, l2, beta, initial_accumulator, l2_shrinkage >= 0; lr_power <= 0. With any lr_power
/// except -0.5 the power is the standard library's, and its last bits depend on the library.
///
/// While the rate is 0, no weight changes. A weight does not change either while q, the divisor of
/// z, is 0 (no gradient yet, beta = 0, l2 = 0) or infinite. A square that overflows (in float, the
/// square of a gradient above 1.8e19) makes n infinite, and the weight never changes again; the
/// formula would give infinity / infinity.
/// Other frameworks: TensorFlow, Keras and Paddle count l2 twice (so do their presets).
struct constant_rate_ftrl {
    double l1 = 0, l2 = 0, beta = 1, lr_power = -0.5, initial_accumulator = 0, l2_shrinkage = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"l1", &constant_rate_ftrl::l1, ranges::non_negative},
                            hyperparameter{"l2", &constant_rate_ftrl::l2, ranges::non_negative},
                            hyperparameter{"beta", &constant_rate_ftrl::beta, ranges::non_negative},
                            hyperparameter{"lr_power", &constant_rate_ftrl::lr_power, ranges::not_positive},
                            hyperparameter{"initial_accumulator", &constant_rate_ftrl::initial_accumulator,
                                           ranges::constant(ranges::non_negative)},
                            hyperparameter{"l2_shrinkage", &constant_rate_ftrl::l2_shrinkage, ranges::non_negative}};

    template <class X> struct state { X z, n; };
    static constexpr std::array state_names{"z", "n"};
    static constexpr int newton_roots = 0;
    GRADSTEP_HD state<double> initial() const { return {0, initial_accumulator}; }
    // The z of a weight depends on the rate: the largest number tells the next step to compute it.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const {
        using value_type = typename pack_traits<V>::value_type;
        V const zero(0), least = V(value_type(l1));
        V const of_zero = math::select(math::abs(s.z) <= least, s.z, zero);
        s.z = math::select(w == zero, of_zero, V(largest_number<value_type>));
    }

    template <class T> struct coeffs { T l1, l2, beta, power, inverse_rate, shrinkage, moves; };
    template <class T> coeffs<T> prepare(step_info now) const {
        bool const moves = now.rate != 0 && 1 / now.rate <= std::numeric_limits<T>::max();
        return {T(l1),           T(l2), T(beta), T(-lr_power), T(moves ? 1 / now.rate : 0), T(2 * l2_shrinkage),
                T(moves ? 1 : 0)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        using namespace math;
        V const before = power(s.n, c.power), n = fma(g, g, s.n), after = power(n, c.power);
        V const of_w = V(0) - fma(w, fma(V(c.beta) + before, V(c.inverse_rate), V(c.l2)), multiply_sign(V(c.l1), w));
        V const z_before = select(s.z == V(largest_number<T>), of_w, s.z);
        V const z = fnma((after - before) * V(c.inverse_rate), w, z_before + fma(V(c.shrinkage), w, g));
        V const q = fma(V(c.beta) + after, V(c.inverse_rate), V(c.l2));
        V const shrunk = multiply_sign(max(abs(z) - V(c.l1), V(0)), z);

        // If the rate is 0, if nothing pulls yet, or if n has overflowed; but not if the state
        // contains NaN.
        auto const is_kept = ((V(c.moves) == V(0)) | (q == V(0)) | (q > V(largest_number<T>))) & (s.z + q == s.z + q);
        V const nothing = g - g; // NaN if g is not finite, which must show
        // Divides by 2 if the weight is kept: with 1, clang would divide all lanes by q and select
        // afterwards, and 0/0 traps.
        V const moved = V(0) - div(shrunk, select(is_kept, V(2), q)); // 0 and not -0 if nothing pulls
        w = select(is_kept, w - nothing, moved);
        s.z = select(is_kept, s.z, z);
        s.n = n;
    }
};
static_assert(rule<constant_rate_ftrl>);
} // namespace gradstep
