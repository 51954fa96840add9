#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Row-wise Adagrad: one accumulator per row of a table instead of one per element (one per tensor
/// outside of tables). Mudigere et al. 2022 (arXiv:2104.05158, section 4.1.4); in use since DLRM.
///
///     n <- n + mean(g^2)                          over the row
///     w <- w - lr / (sqrt(n) + epsilon) * g
///
/// State: n, one per row, initially initial_accumulator. Ranges: epsilon >= 0,
/// initial_accumulator >= 0 (with epsilon = 0 and n = 0 there is no 0 / 0, but a row whose squares
/// underflow moves without bound).
/// Other frameworks: equal to FBGEMM's rowwise_adagrad, whose epsilon is 1e-8.
struct rowwise_adagrad {
    double epsilon = 1e-10, initial_accumulator = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"epsilon", &rowwise_adagrad::epsilon, ranges::non_negative},
                            hyperparameter{"initial_accumulator", &rowwise_adagrad::initial_accumulator,
                                           ranges::constant(ranges::non_negative)}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op;

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class X> struct row_state { X n; };
    static constexpr std::array row_state_names{"n"};
    GRADSTEP_HD row_state<double> row_initial() const { return {initial_accumulator}; }

    template <class T> struct coeffs { T rate, epsilon; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate), never_zero<T>(epsilon)}; }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<V> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {math::mul(g, g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, row_state<T>& s) {
        s.n = s.n + T(math::div(row.squares, width));
        return finite_quotient(c.rate, math::sqrt(s.n) + c.epsilon);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = math::fnma(V(settled), g, w);
    }
};
static_assert(row_wise_rule<rowwise_adagrad>);
} // namespace gradstep
