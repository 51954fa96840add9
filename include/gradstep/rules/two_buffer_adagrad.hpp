#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// Adagrad that still learns after millions of steps. Squares that are small compared with a long
/// sum would be lost in it, so they are first added up in a separate buffer.
///
///     n <- n + g^2
///     w <- w - lr * g / (sqrt(sum + n) + epsilon)          epsilon_place inside:  lr * g / sqrt(sum + n + epsilon)
///     every `period` steps:   sum <- sum + n,   n <- 0
///
/// State: n, initially zero; sum, initially initial_accumulator. Ranges: epsilon,
/// initial_accumulator >= 0; period >= 1. With epsilon = 0 and an empty sum there is no 0 / 0, but
/// a gradient whose square underflows moves a weight without bound. In a table, a row that is
/// inactive at the end of a period adds up at the end of the next one: tables support only
/// `touch_only`.
/// Other frameworks: this is the accumulation of Paddle's first version, with a period of 16384.
struct two_buffer_adagrad {
    double epsilon = 1e-10, initial_accumulator = 0;
    std::int64_t period = 16384;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"epsilon", &two_buffer_adagrad::epsilon, ranges::non_negative},
        hyperparameter{"initial_accumulator", &two_buffer_adagrad::initial_accumulator,
                       ranges::constant(ranges::non_negative)},
        hyperparameter{"period", &two_buffer_adagrad::period, ranges::positive_count},
        hyperparameter{"epsilon_place", &two_buffer_adagrad::epsilon_place, epsilon_positions::uncorrected}};

    template <class X> struct state { X n, sum; };
    static constexpr std::array state_names{"n", "sum"};
    static constexpr int newton_roots = 2;
    GRADSTEP_HD state<double> initial() const { return {0, initial_accumulator}; }

    template <class T> struct coeffs {
        T rate, ends; // 1 if this step ends a period, else 0
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(now.rate), T(now.t % period == 0), {epsilon, epsilon_place}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        V const n = math::fma(g, g, s.n), total = s.sum + n;
        auto const ends = V(c.ends) != V(0);
        w = math::fnma(V(c.rate), math::div(g, c.root.of(total)), w);
        s.sum = math::select(ends, total, s.sum);
        s.n = math::select(ends, V(0), n);
    }
};
static_assert(rule<two_buffer_adagrad>);
} // namespace gradstep
