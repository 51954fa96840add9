#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/adam.hpp>

namespace gradstep {
/// Row-wise Adam: the second moment is one number per row of a table (one per tensor outside of
/// tables).
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * mean(g^2)    over the row
///     w <- w - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// bias_correction = false: 1 in place of both 1 - beta^t.
///
/// State: m, and v, one per row; initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon >= 0.
/// Other frameworks: FBGEMM calls it partial_rowwise_adam.
struct rowwise_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &rowwise_adam::beta1, ranges::fraction},
                            hyperparameter{"beta2", &rowwise_adam::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &rowwise_adam::epsilon, ranges::non_negative},
                            hyperparameter{"bias_correction", &rowwise_adam::bias_correction}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    template <class X> struct row_state { X v; };
    static constexpr std::array row_state_names{"v"};
    GRADSTEP_INLINE state<double> decay() const { return {beta1}; }
    GRADSTEP_INLINE row_state<double> row_decay() const { return {beta2}; }

    template <class T> using coeffs = adam::coeffs<T>;
    template <class T> coeffs<T> prepare(step_info now) const { return as_adam().template prepare<T>(now); }
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        return as_adam().template step_bound<T>(from, to);
    }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<V> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {math::mul(g, g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, row_state<T>& s) {
        s.v = c.second(s.v, T(math::div(row.squares, width)));
        return finite_quotient(c.rate, c.root.corrected_outside(s.v));
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        w = math::fnma(V(settled), s.m, w);
    }

private:
    GRADSTEP_INLINE adam as_adam() const {
        return {.beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .bias_correction = bias_correction};
    }
};
static_assert(row_wise_rule<rowwise_adam>);
} // namespace gradstep
