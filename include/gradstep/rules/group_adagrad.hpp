#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Group Adagrad: one accumulator per row of a table (one per tensor outside of tables), and a
/// group lasso that takes the row to 0. The documented update is the source of Monolith (Liu et al.
/// 2022, arXiv:2209.07663), group_adagrad_optimizer.cc.
///
///     n <- n + max(g^2)                           over the row
///     r <- lr / (beta + sqrt(n))
///     x <- w - r * g
///     w <- max(0, 1 - r * l21 / |x|) * x          norm over the row
///
/// State: n, one per row, initially initial_accumulator. Ranges: all >= 0; beta as epsilon in
/// `adagrad`. |x|^2 is |w|^2 - 2 r <w, g> + r^2 |g|^2, from sums in double, so that a step reads
/// the row twice and not three times. If a step takes a row to a small part of its norm, that part
/// is relatively off by the square of the quotient, in roundings of double. A row of zeros stays.
/// Without gradient the group lasso moves a weight by the norm of its row, so tables support
/// `touch_only`.
/// Other frameworks: Monolith's weight_decay_factor is the regularizer `l2`. MXNet's
/// proximal_group_adagrad adds the mean of the squares.
struct group_adagrad {
    double l21 = 0, beta = 0, initial_accumulator = 0.1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"l21", &group_adagrad::l21, ranges::non_negative},
                            hyperparameter{"beta", &group_adagrad::beta, ranges::non_negative},
                            hyperparameter{"initial_accumulator", &group_adagrad::initial_accumulator,
                                           ranges::constant(ranges::non_negative)}};

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class X> struct row_state { X n; };
    static constexpr std::array row_state_names{"n"};
    GRADSTEP_HD row_state<double> row_initial() const { return {initial_accumulator}; }

    template <class T> struct coeffs { T rate, beta, l21; };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate), never_zero<T>(beta), T(l21)}; }

    template <class X> struct partial_sums { X largest, weight, both, gradient; };
    static constexpr bool is_maximum(std::size_t i) { return i == 0; }
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V w, V g, state<V> const&) {
        auto const square = math::wide_square(g);
        return {square, math::wide_square(w), math::wide_product(w, g), square};
    }
    template <class X> struct settled { X rate, share; };
    template <class T>
    GRADSTEP_HD static settled<T> finalize(coeffs<T> const& c, partial_sums<double> row, double, row_state<T>& s) {
        s.n = s.n + T(row.largest);
        T const rate = finite_quotient(c.rate, math::sqrt(s.n) + c.beta);
        double const r = rate, least = math::mul(r, double(c.l21));
        double const squares = math::fma(r, math::fma(r, row.gradient, -2 * row.both), row.weight);
        double const norm = math::sqrt(math::max(squares, 0.0));
        double const share = norm <= least ? 0 : math::div(norm - least, norm); // a NaN stays
        return {rate, T(least == 0 ? 1 : share)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, settled<T> row, V& w, V g, state<V>&) {
        w = math::mul(V(row.share), math::fnma(V(row.rate), g, w));
    }
};
static_assert(row_wise_rule<group_adagrad>);
} // namespace gradstep
