#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Row-wise Adagrad with the clipping of CowClip: the gradient of a row of a table (of a tensor
/// outside of tables) is limited by the norm of the row times a count of its updates. Zheng et al.
/// 2022, arXiv:2204.06240, Algorithm 1; in this form FBGEMM's rowwise_adagrad_with_counter.
///
///     c <- 1 + count_decay * c                    count_decay * c if all of g is 0
///     n <- n + mean(g^2)                          over the row
///     r <- min(1, c * max(clip_ratio * |w|, lower_bound) / |g|)     norms over the row; 1 if |g| is 0
///     w <- w - lr / (sqrt(n) + epsilon) * r * g
///
/// State: c, initially zero, and n, initially initial_accumulator; both one per row. Ranges:
/// clip_ratio, lower_bound, epsilon, initial_accumulator >= 0; 0 <= count_decay <= 1. With 0, c is
/// 1; with 1, it counts all updates. In a table with `exact`, the count also decays in the steps
/// that a row misses; with `touch_only`, only in its own.
/// Other frameworks: the paper counts the occurrences of an id in the batch, and clips before Adam.
/// FBGEMM's counter_halflife is -1 / log2(count_decay), and its decoupled weight decay `decoupled`,
/// which it leaves out in missed steps.
struct cowclip_adagrad {
    double clip_ratio = 1, lower_bound = 1e-5, count_decay = 0, epsilon = 1e-8, initial_accumulator = 0;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"clip_ratio", &cowclip_adagrad::clip_ratio, ranges::non_negative},
                            hyperparameter{"lower_bound", &cowclip_adagrad::lower_bound, ranges::non_negative},
                            hyperparameter{"count_decay", &cowclip_adagrad::count_decay, ranges::share},
                            hyperparameter{"epsilon", &cowclip_adagrad::epsilon, ranges::non_negative},
                            hyperparameter{"initial_accumulator", &cowclip_adagrad::initial_accumulator,
                                           ranges::constant(ranges::non_negative)}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::decays_state;

    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class X> struct row_state { X c, n; };
    static constexpr std::array row_state_names{"c", "n"};
    GRADSTEP_HD row_state<double> row_initial() const { return {0, initial_accumulator}; }
    GRADSTEP_INLINE state<double> decay() const { return {}; }
    GRADSTEP_INLINE row_state<double> row_decay() const { return {count_decay, 1}; }

    template <class T> struct coeffs { T clip_ratio, lower_bound, count_decay, rate, epsilon; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(clip_ratio), T(lower_bound), T(count_decay), T(now.rate), never_zero<T>(epsilon)};
    }

    template <class X> struct partial_sums { X weight, gradient; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const&, V w, V g, state<V> const&) {
        return {math::wide_square(w), math::wide_square(g)};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width, row_state<T>& s) {
        s.c = math::fma(c.count_decay, s.c, T(row.gradient != 0 ? 1 : 0));
        s.n = s.n + T(math::div(row.gradient, width));
        double const w = math::sqrt(row.weight), g = math::sqrt(row.gradient);
        double const limit = double(s.c) * math::max(double(c.clip_ratio) * w, double(c.lower_bound));
        double const part = g <= limit ? 1 : math::div(limit, g); // a NaN stays
        return T(double(finite_quotient(c.rate, math::sqrt(s.n) + c.epsilon)) * part);
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const&, T settled, V& w, V g, state<V>&) {
        w = math::fnma(V(settled), g, w);
    }
};
static_assert(row_wise_rule<cowclip_adagrad>);
} // namespace gradstep
