#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Fromage, the Frobenius matched gradient descent. Bernstein, Vahdat, Yue & Liu 2020,
/// arXiv:2002.03432, Algorithm 1.
///
///     a <- max(|w|, min_norm),   b <- max(|g|, min_norm)      norms over the tensor (a row of a table)
///     r <- a / b                                              1 if one of them is 0
///     w <- (w - lr * r * g) / sqrt(1 + lr^2)
///
/// No state. Range: min_norm >= 0. A step without gradient divides the weight by sqrt(1 + lr^2), so
/// tables support `touch_only`.
/// Other frameworks: the paper has no min_norm; its authors' code takes r = 1 as well. optax's
/// min_norm is 1e-6.
struct fromage {
    double min_norm = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"min_norm", &fromage::min_norm, ranges::non_negative}};

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};

    template <class T> struct coeffs { T rate, min_norm, shrink; };
    template <class T> coeffs<T> prepare(step_info now) const {
        // 1 / sqrt(1 + lr^2), without a square that can overflow.
        double const over = now.rate > 1 ? 1 / now.rate : 1, least = now.rate > 1 ? over : now.rate;
        return {T(now.rate), T(min_norm), T(over / std::sqrt(1 + least * least))};
    }

    template <class X> struct partial_sums { X weight, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V w, V g, state<V> const&) {
        return {math::wide_square(w), math::wide_square(g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double,
                                  gradstep::row_state<fromage, T>&) {
        double const w = math::max(math::sqrt(row.weight), double(c.min_norm));
        double const g = math::max(math::sqrt(row.gradient), double(c.min_norm));
        double const ratio = w == 0 || g == 0 ? 1 : finite_quotient(w, g);
        return finite_number<T>(double(c.rate) * ratio);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>&) {
        w = math::mul(V(c.shrink), math::fnma(V(settled), g, w));
    }
};
static_assert(row_wise_rule<fromage>);
} // namespace gradstep
