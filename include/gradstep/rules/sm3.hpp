#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/factored_moments.hpp>

namespace gradstep {
/// SM3: Adagrad whose accumulator is one number for each row and each column of a matrix. Anil,
/// Gupta, Koren & Singer 2019, arXiv:1901.11150, Algorithm SM3-II, with rows and columns as the
/// cover.
///
///     a matrix:   v = beta2 * min(r, c) + (1 - beta2) * g^2        beta2 = 1:  v = min(r, c) + g^2
///                 r <- max of v over each row,  c <- max of v over each column
///     otherwise:  v <- beta2 * v + (1 - beta2) * g^2               beta2 = 1:  v <- v + g^2
///     w <- w - lr * g / sqrt(v + epsilon)
///
/// A tensor with a `shape` is a matrix; others, such as biases, have a v of their length, which is
/// Adagrad. `momentum_sm3` is the same with momentum.
///
/// State: r with a number for each row, c with one for each column, and v, which a matrix does not
/// have; all initially zero. A step reads the gradient once. Ranges: 0 < beta2 <= 1; epsilon >= 0,
/// and 0 / 0 counts as 0, as in the paper.
///
/// Other frameworks: optax.sm3 has momentum. Tensors with more than two dimensions have
/// accumulators for each dimension in optax and in Google's code; here the dimensions after the
/// first one are joined.
///
/// Tables do not support it, and no other rule can wrap it.
struct sm3 {
    double beta2 = 1, epsilon = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta2", &sm3::beta2, ranges::positive_share},
                            hyperparameter{"epsilon", &sm3::epsilon, ranges::non_negative}};

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr std::array factor_slots{factor_slot{"r", factor_length::rows},
                                             factor_slot{"c", factor_length::columns},
                                             factor_slot{"v", factor_length::whole}};

    template <class T> struct coeffs {
        T rate;
        detail::sm3_terms<T> terms;
    };
    template <class T> coeffs<T> prepare(step_info now) const { return {T(now.rate), {beta2, epsilon}}; }
    template <class T> struct settled {};

    /// The only pass.
    template <bool is_matrix> struct move {
        static constexpr bool of_matrix = is_matrix, changes_state = !is_matrix, moves_weight = true;
        static constexpr auto factors = is_matrix ? factor_sum::maximum : factor_sum::none;
        static constexpr std::size_t totals = 0;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const&,
                                                          factored_element<V, S>& x) {
            V const v = c.terms.template accumulated<is_matrix>(x);
            x.w = math::fnma(V(c.rate), c.terms.direction(x.g, v), x.w);
            return {pack_traits<V>::to_wide(v)};
        }
    };
    template <class T, class Work> void update(coeffs<T> const&, Work const& work) const {
        detail::run_sm3<move>(work, settled<T>{});
    }
};
static_assert(factored_rule<sm3>);
} // namespace gradstep
