#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/factored_moments.hpp>

namespace gradstep {
/// SM3 with momentum: `sm3`, whose steps are averaged. Anil, Gupta, Koren & Singer 2019,
/// arXiv:1901.11150, Algorithm SM3-II and section 5.
///
///     v, r and c as in sm3
///     m <- beta1 * m + (1 - beta1) * g / sqrt(v + epsilon)
///     w <- w - lr * m
///
/// State: m for each element; r with a number for each row, c with one for each column, and v,
/// which a matrix does not have; all initially zero. A step reads the gradient once. Ranges:
/// 0 <= beta1 < 1; 0 < beta2 <= 1; epsilon >= 0.
///
/// Other frameworks: optax.sm3 has epsilon = 1e-8, as here; Google's code has none. Both have
/// accumulators for each dimension of a tensor with more than two; here the dimensions after the
/// first one are joined.
///
/// Tables do not support it, and no other rule can wrap it.
struct momentum_sm3 {
    double beta1 = 0.9, beta2 = 1, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &momentum_sm3::beta1, ranges::fraction},
                            hyperparameter{"beta2", &momentum_sm3::beta2, ranges::positive_share},
                            hyperparameter{"epsilon", &momentum_sm3::epsilon, ranges::non_negative}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr std::array factor_slots{factor_slot{"r", factor_length::rows},
                                             factor_slot{"c", factor_length::columns},
                                             factor_slot{"v", factor_length::whole}};

    template <class T> struct coeffs {
        T rate, beta1, share;
        detail::sm3_terms<T> terms;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(now.rate), T(beta1), T(1 - beta1), {beta2, epsilon}};
    }
    template <class T> struct settled {};

    /// The only pass.
    template <bool is_matrix> struct move {
        static constexpr bool of_matrix = is_matrix, changes_state = true, moves_weight = true;
        static constexpr auto factors = is_matrix ? factor_sum::maximum : factor_sum::none;
        static constexpr std::size_t totals = 0;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const&,
                                                          factored_element<V, S>& x) {
            V const v = c.terms.template accumulated<is_matrix>(x);
            x.s.m = math::fma(V(c.beta1), x.s.m, math::mul(V(c.share), c.terms.direction(x.g, v)));
            x.w = math::fnma(V(c.rate), x.s.m, x.w);
            return {pack_traits<V>::to_wide(v)};
        }
    };
    template <class T, class Work> void update(coeffs<T> const&, Work const& work) const {
        detail::run_sm3<move>(work, settled<T>{});
    }
};
static_assert(factored_rule<momentum_sm3>);
} // namespace gradstep
