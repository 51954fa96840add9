#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// FTRL-Proximal with a sparse group lasso: l21 takes all weights of a tensor (a row of a table) to
/// 0 together. Yue et al. 2021, arXiv:2107.14432, Group Adagrad. The group lasso in FTRL is by Yang
/// et al. 2010 (ICML).
///
///     n <- n + g^2,   q = (beta + sqrt(n)) / lr + l2
///     z <- y + g - q * w
///     s <- sgn(z) * max(|z| - l1, 0)
///     k <- max(0, 1 - l21 * sqrt(D) / |s|)        norm over the D elements of the tensor (of the row)
///     w <- -k * s / q,   y <- z - k * s
///
/// The new weight is computed as w - (y_before + g - y) / q, or 0 if k * s is 0. Without penalties
/// y is 0, and a weight without gradient keeps its bits.
///
/// y = z + q * w is the part of z that the penalties hold. The paper stores z itself:
/// z <- z + g - (q - q_before) * w, which is the same number and needs the rate of the step before.
/// The form with y is exact for any schedule and for weights that other code changes.
///
/// State: y, initially zero, so that initial weights shrink in the first step if l1 or l21 is not
/// 0; n, initially initial_accumulator. If you set weights later (`updater::weights_set`), y
/// becomes -sgn(w) * l1, with which l1 leaves the weight; of a weight of 0, an |y| <= l1 stays.
/// While the rate is 0, no weight changes, and y changes for weights that are 0. Ranges: all >= 0;
/// beta > 0 unless l2 > 0 or initial_accumulator > 0, as in `ftrl`. Without gradient at a constant
/// rate a weight does not move, except by rounding, so that `touch_only` is the policy for tables.
/// Other frameworks: the authors' tfplus has beta = 0, an n that starts at 0.1, and counts l2
/// twice. With l21 = 0 it is `ftrl`, except for initial weights and rounding.
struct group_ftrl {
    double l1 = 0, l2 = 0, l21 = 0, beta = 1, initial_accumulator = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"l1", &group_ftrl::l1, ranges::non_negative},
                            hyperparameter{"l2", &group_ftrl::l2, ranges::non_negative},
                            hyperparameter{"l21", &group_ftrl::l21, ranges::non_negative},
                            hyperparameter{"beta", &group_ftrl::beta, ranges::non_negative},
                            hyperparameter{"initial_accumulator", &group_ftrl::initial_accumulator,
                                           ranges::constant(ranges::non_negative)}};

    template <class X> struct state { X y, n; };
    static constexpr std::array state_names{"y", "n"};
    GRADSTEP_HD state<double> initial() const { return {0, initial_accumulator}; }
    // The y of a weight that is at rest without l21.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const {
        V const zero(0), least = V(typename pack_traits<V>::value_type(l1));
        V const held = math::select(math::abs(s.y) <= least, s.y, zero);
        s.y = math::select(w == zero, held, zero - math::multiply_sign(least, w));
    }

    template <class T> struct coeffs { T l1, l2, l21, beta, inverse_rate, moves; };
    template <class T> coeffs<T> prepare(step_info now) const {
        bool const moves = now.rate != 0 && 1 / now.rate <= std::numeric_limits<T>::max();
        return {T(l1), T(l2), T(l21), T(beta), T(moves ? 1 / now.rate : 1), T(moves ? 1 : 0)};
    }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V w, V g, state<V> s) {
        return {math::wide_square(soft(c, advance(c, w, g, s).z))};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width,
                                  gradstep::row_state<group_ftrl, T>&) {
        double const norm = math::sqrt(row.squares), least = math::mul(double(c.l21), math::sqrt(width));
        return norm <= least ? T(0) : T(math::div(norm - least, norm)); // a NaN stays
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        V const zero(0), y = s.y;
        auto const at = advance(c, w, g, s);
        V const left = V(settled) * soft(c, at.z), held = at.z - left;
        // -left / q as a move of w, which without penalties is -g / q.
        V const moved = math::select(left == zero, zero, w - math::div((y + g) - held, at.q));
        auto const moves = V(c.moves) != zero;
        s.y = math::select(moves, held, math::select(w == zero, at.z, y));
        w = math::select(moves, moved, math::select(V(settled) == V(settled), w, V(settled)));
    }

    GRADSTEP_INLINE void check() const {
        constexpr double least = 0x1p-63; // as in ftrl
        if (beta < least && l2 < std::numeric_limits<float>::min() && std::sqrt(initial_accumulator) < least)
            detail::fail<value_error>({"group_ftrl.beta"}, {beta, " is out of range"},
                                      {"> 0, at least ", least, ", unless initial_accumulator or l2 is"});
    }

private:
    template <class V> struct position { V q, z; };
    // Adds the gradient to n and returns q and z.
    template <class T, pack V> GRADSTEP_HD static position<V> advance(coeffs<T> const& c, V w, V g, state<V>& s) {
        s.n = math::fma(g, g, s.n);
        V const q = math::fma(V(c.beta) + math::sqrt(s.n), V(c.inverse_rate), V(c.l2));
        return {q, math::fnma(q, w, s.y + g)};
    }
    template <class T, pack V> GRADSTEP_HD static V soft(coeffs<T> const& c, V z) {
        return math::multiply_sign(math::max(math::abs(z) - V(c.l1), V(0)), z);
    }
};
static_assert(row_wise_rule<group_ftrl>);
} // namespace gradstep
