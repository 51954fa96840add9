#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/terms/factored_moments.hpp>

namespace gradstep {
/// CAME: adafactor with momentum, whose step is divided by its own factored instability. Luo, Ren,
/// Zheng, Jiang, Jiang & You 2023, arXiv:2307.02047, Algorithm 2.
///
///     a matrix:   r <- beta2 * r + (1 - beta2) * (mean of g^2 over each row + epsilon1)
///                 c <- beta2 * c + (1 - beta2) * (mean of g^2 over each column + epsilon1)
///                 v = r c / mean(r)
///     otherwise:  v <- beta2 * v + (1 - beta2) * (g^2 + epsilon1)
///     u = g / sqrt(v)
///     u <- u / max(1, RMS(u) / d)                    RMS(x) = sqrt(mean(x^2)) over the whole tensor
///     m <- beta1 * m + (1 - beta1) * u
///     a matrix:   s_r <- beta3 * s_r + (1 - beta3) * (mean of (u - m)^2 over each row + epsilon2)
///                 s_c <- beta3 * s_c + (1 - beta3) * (mean of (u - m)^2 over each column + epsilon2)
///                 w <- w - lr * m / sqrt(s_r s_c / mean(s_r))
///     otherwise:  w <- w - lr * m
///
/// A tensor with a `shape` is a matrix; others, such as biases, have a v of their length and no
/// instability. Nothing corrects the bias of the averages. With `decoupled` as the regularizer it
/// is the authors' came-pytorch.
///
/// State: m for each element; r and s_r with a number for each row, c and s_c with one for each
/// column, and v, which a matrix does not have; all initially zero. A step of a matrix reads the
/// gradient three times. Ranges: 0 <= beta1, beta2, beta3 < 1; epsilon1 and epsilon2 > 0; d > 0,
/// and infinite for no clipping.
///
/// Other frameworks: came-pytorch factors the last two dimensions of a tensor with more than two;
/// here the dimensions after the first one are joined.
///
/// Tables do not support it, and no other rule can wrap it.
struct came {
    double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999, epsilon1 = 1e-30, epsilon2 = 1e-16, d = 1;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &came::beta1, ranges::fraction},
                            hyperparameter{"beta2", &came::beta2, ranges::fraction},
                            hyperparameter{"beta3", &came::beta3, ranges::fraction},
                            hyperparameter{"epsilon1", &came::epsilon1, ranges::positive},
                            hyperparameter{"epsilon2", &came::epsilon2, ranges::positive},
                            hyperparameter{"d", &came::d, ranges::positive_or_infinite}};

    template <class X> struct state { X m; };
    static constexpr std::array state_names{"m"};
    static constexpr std::array factor_slots{
        factor_slot{"r", factor_length::rows}, factor_slot{"c", factor_length::columns},
        factor_slot{"s_r", factor_length::rows}, factor_slot{"s_c", factor_length::columns},
        factor_slot{"v", factor_length::whole}};

    template <class T> struct coeffs { T rate, beta1, share, keep, gain, epsilon, floor, most; };
    template <class T> coeffs<T> prepare(step_info now) const {
        T const floor = never_zero<T>(0);
        return {T(now.rate),  T(beta1),    T(1 - beta1), T(beta2),
                T(1 - beta2), T(epsilon1), floor,        math::div(T(1), floor)};
    }
    /// What clips u.
    template <class T> struct settled { T clip; };

    /// The first pass over a matrix: the squares of the gradient.
    struct squares {
        static constexpr bool of_matrix = true, changes_state = false, moves_weight = false;
        static constexpr auto factors = factor_sum::sum;
        static constexpr std::size_t totals = 0;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const&, settled<T> const&,
                                                          factored_element<V, S>& x) {
            return {math::wide_square(x.g)};
        }
    };
    /// The squares of u. For other tensors it also updates v.
    template <bool is_matrix> struct measure {
        static constexpr bool of_matrix = is_matrix, changes_state = !is_matrix, moves_weight = false;
        static constexpr auto factors = factor_sum::none;
        static constexpr std::size_t totals = 1;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const&,
                                                          factored_element<V, S>& x) {
            if constexpr (!is_matrix)
                x.whole = math::fma(V(c.keep), x.whole, math::mul(V(c.gain), math::fma(x.g, x.g, V(c.epsilon))));
            return {wide_pack<V>(0),
                    {math::wide_square(detail::over_root<is_matrix>(x, c.floor, c.most)), wide_pack<V>(0)}};
        }
    };
    /// Updates m. For a matrix it adds the instability; for other tensors it is the last pass.
    template <bool is_matrix> struct average {
        static constexpr bool of_matrix = is_matrix, changes_state = true, moves_weight = !is_matrix;
        static constexpr auto factors = is_matrix ? factor_sum::sum : factor_sum::none;
        static constexpr std::size_t totals = 0;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const& by,
                                                          factored_element<V, S>& x) {
            V const u = math::mul(detail::over_root<is_matrix>(x, c.floor, c.most), V(by.clip));
            x.s.m = math::fma(V(c.beta1), x.s.m, math::mul(V(c.share), u));
            if constexpr (is_matrix) return {math::wide_square(u - x.s.m)};
            x.w = math::fnma(V(c.rate), x.s.m, x.w);
            return {};
        }
    };
    /// The last pass over a matrix.
    struct move {
        static constexpr bool of_matrix = true, changes_state = false, moves_weight = true;
        static constexpr auto factors = factor_sum::none;
        static constexpr std::size_t totals = 0;
        template <class T, pack V, class S>
        GRADSTEP_HD static factored_sums<wide_pack<V>> at(coeffs<T> const& c, settled<T> const&,
                                                          factored_element<V, S>& x) {
            V const step = math::mul(x.s.m, math::min(math::mul(x.row, x.column), V(c.most)));
            x.w = math::fnma(V(c.rate), step, x.w);
            return {};
        }
    };
    template <class T, class Work> void update(coeffs<T> const&, Work const& work) const {
        settled<T> by{T(1)};
        if (work.is_matrix()) {
            work.template run<squares>(by);
            settle_averages(work, 0, beta2, epsilon1);
        }
        double sum = 0;
        if (!work.is_matrix()) sum = work.template run<measure<false>>(by)[0];
        else if (std::isfinite(d)) sum = work.template run<measure<true>>(by)[0];
        double const of_u = detail::root_of_mean(sum, work.size()) / d;
        by.clip = T(of_u <= 1 ? 1 : 1 / of_u);
        if (!work.is_matrix()) {
            work.template run<average<false>>(by);
            return;
        }
        work.template run<average<true>>(by);
        settle_averages(work, 2, beta3, epsilon2);
        work.template run<move>(by);
    }

private:
    // Averages what the last pass has added in slots i and i + 1, for the factors of the next pass.
    template <class Work> static void settle_averages(Work const& work, std::size_t i, double beta, double epsilon) {
        work.settle([&] {
            detail::average_factors(work, i, factor_length::rows, beta, 1 - beta, epsilon);
            detail::average_factors(work, i + 1, factor_length::columns, beta, 1 - beta, epsilon);
            double const mean = detail::mean_of_factors(work, i), least = never_zero<double>(0);
            detail::inverse_root_values(work, i, factor_length::rows, mean < least ? least : mean);
            detail::inverse_root_values(work, i + 1, factor_length::columns);
        });
    }
};
static_assert(factored_rule<came>);
} // namespace gradstep
