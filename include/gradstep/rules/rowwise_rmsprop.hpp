#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Row-wise RMSprop: one average of squares per row of a table (one per tensor outside of tables),
/// which changes only in steps with a gradient. FBGEMM's rowwise_rmsprop_ar; RMSprop is Tieleman &
/// Hinton 2012, lecture 6.5.
///
///     v <- beta * v + (1 - beta) * mean(g^2)      over the row; v stays if all of g is 0
///     w <- w - lr / (sqrt(v) + epsilon) * g
///
/// State: v, one per row, initially zero. Ranges: 0 <= beta < 1; epsilon >= 0.
/// FBGEMM shrinks a row when it is touched, by 1 - lr * ar_alpha * gap, at least min_shrinkage,
/// with the rate of today. Here that is the regularizer `decoupled{ar_alpha}` in a table with
/// `exact`: the product of 1 - lr * ar_alpha over the steps of the gap, each with its own rate. It
/// cannot turn negative, so there is no min_shrinkage. A row that was never touched shrinks too.
struct rowwise_rmsprop {
    double beta = 0.99, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta", &rowwise_rmsprop::beta, ranges::fraction},
                            hyperparameter{"epsilon", &rowwise_rmsprop::epsilon, ranges::non_negative}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op;

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class X> struct row_state { X v; };
    static constexpr std::array row_state_names{"v"};

    template <class T> struct coeffs {
        moving_average<T> second;
        T rate, epsilon;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta), T(now.rate), never_zero<T>(epsilon)};
    }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {math::wide_square(g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, row_state<T>& s) {
        if (row.squares != 0) s.v = c.second(s.v, T(math::div(row.squares, width)));
        return finite_quotient(c.rate, math::sqrt(s.v) + c.epsilon);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = math::fnma(V(settled), g, w);
    }
};
static_assert(row_wise_rule<rowwise_rmsprop>);
} // namespace gradstep
