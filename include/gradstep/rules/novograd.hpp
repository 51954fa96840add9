#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// NovoGrad. Ginsburg et al. 2019, arXiv:1905.11286, Algorithm 1.
///
///     v <- beta2 * v + (1 - beta2) * |g|^2        over the tensor (a row of a table); |g|^2 while v is 0
///     m <- beta1 * m + g / (sqrt(v) + epsilon) + weight_decay * w
///     w <- w - lr * m
///
/// State: m, and v, one per row; initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon,
/// weight_decay >= 0. The decay joins the gradient after it is normalized, so no regularizer can
/// replace it. The paper sets v to |g|^2 in the first step. With v = 0 as the condition, a row of a
/// table that joins later starts in the same way. Tables support `replay` if weight_decay = 0.
/// Other frameworks: the authors' code and timm are this rule. optax starts v by the number of the
/// step, and has beta1 = 0.9, beta2 = 0.25, epsilon = 1e-6.
struct novograd {
    double beta1 = 0.95, beta2 = 0.98, epsilon = 1e-8, weight_decay = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &novograd::beta1, ranges::fraction},
                            hyperparameter{"beta2", &novograd::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &novograd::epsilon, ranges::non_negative},
                            hyperparameter{"weight_decay", &novograd::weight_decay, ranges::non_negative}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    template <class X> struct row_state { X v; };
    static constexpr std::array row_state_names{"v"};
    GRADSTEP_INLINE state<double> decay() const { return {beta1}; }
    GRADSTEP_INLINE row_state<double> row_decay() const { return {beta2}; }
    GRADSTEP_INLINE void check_decay() const {
        if (weight_decay != 0)
            detail::fail<value_error>({"novograd.weight_decay"}, {weight_decay, " is not allowed"},
                                      {"0 to be replayed, since it enters the momentum; or use touch_only"});
    }

    template <class T> struct coeffs {
        moving_average<T> second;
        T beta1, epsilon, decay, rate;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta2), T(beta1), never_zero<T>(epsilon), T(weight_decay), T(now.rate)};
    }

    // Without gradient, m falls by beta1 a step.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t) const {
        return prepare<T>(from);
    }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V, V g, state<V> const&) {
        return {math::wide_square(g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double, row_state<T>& s) {
        T const squares = T(row.squares);
        s.v = s.v == T(0) ? squares : c.second(s.v, squares);
        return finite_quotient(T(1), math::sqrt(s.v) + c.epsilon);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        s.m = math::fma(V(c.beta1), s.m, math::fma(V(c.decay), w, V(settled) * g));
        w = math::fnma(V(c.rate), s.m, w);
    }
};
static_assert(row_wise_rule<novograd>);
} // namespace gradstep
