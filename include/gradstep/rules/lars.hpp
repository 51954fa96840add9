#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// LARS, layer-wise adaptive rate scaling. You, Gitman & Ginsburg 2017, arXiv:1708.03888, Algorithm
/// 1.
///
///     r <- trust * |w| / (|g| + epsilon)          norms over the tensor (a row of a table); 1 if one of them is 0
///     m <- mu * m + lr * r * g
///     w <- w - m
///
/// g is the gradient after the regularizers: the paper's weight decay is `l2`.
/// State: m, initially zero. Ranges: 0 <= mu < 1; trust > 0; epsilon >= 0.
/// Other frameworks: equal to optax.lars. The paper and apex divide by |g| + decay * |w| instead of
/// the norm |g + decay * w|. FBGEMM does not check for a norm of 0.
struct lars {
    double mu = 0.9, trust = 1e-3, epsilon = 0;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"mu", &lars::mu, ranges::fraction}, hyperparameter{"trust", &lars::trust, ranges::positive},
        hyperparameter{"epsilon", &lars::epsilon, ranges::non_negative}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};

    template <class T> struct coeffs { T mu, rate, trust, epsilon; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(mu), T(now.rate), T(trust), T(epsilon)}; }

    template <class X> struct partial_sums { X weight, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V w, V g, state<V> const&) {
        return {math::wide_square(w), math::wide_square(g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double, gradstep::row_state<lars, T>&) {
        double const w = math::sqrt(row.weight), g = math::sqrt(row.gradient);
        double const ratio = w == 0 || g == 0 ? 1 : finite_quotient(double(c.trust) * w, g + double(c.epsilon));
        return finite_number<T>(double(c.rate) * ratio);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.mu), s.m, V(settled) * g);
        w = w - s.m;
    }
};
static_assert(row_wise_rule<lars>);
} // namespace gradstep
