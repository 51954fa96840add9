#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// COCOB: training without a learning rate, by betting on the outcome of coins. Orabona & Tommasi
/// 2017, arXiv:1705.07795, Algorithm 2 (COCOB-Backprop).
///
///     h = lr * g                                          the paper has no rate: use constant{1}
///     largest <- max(largest, |h|)
///     sum <- sum + |h|
///     reward <- max(reward - h * (w - w0), 0)
///     theta <- theta - h
///     w <- w0 + theta / max(sum + largest, alpha * largest) * ((largest + reward) / largest)
///
/// State: largest, initially epsilon; sum, reward, theta, initially zero; w0, the initial weight.
/// Where h = 0 nothing changes. If you set weights later (`updater::weights_set`), w0 becomes what
/// the formula needs for the weight, and the bet goes on. Ranges: alpha > 0, epsilon >= 0. The
/// weight is a function of the state, so a decay of the weight itself is lost at the next gradient:
/// use `l2`. An infinite weight becomes NaN.
/// Other frameworks: this is optax.contrib.cocob, which also scales gradients by the rate; a
/// constant factor of all gradients has no effect except through epsilon.
struct cocob {
    double alpha = 100, epsilon = 1e-8;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"alpha", &cocob::alpha, ranges::constant(ranges::positive)},
                            hyperparameter{"epsilon", &cocob::epsilon, ranges::constant(ranges::non_negative)}};
    static constexpr auto at_zero_gradient = zero_gradient_effect::no_op;

    template <class X> struct state { X largest, sum, reward, theta, w0; };
    static constexpr std::array state_names{"largest", "sum", "reward", "theta", "w0"};
    template <std::size_t I, class S> GRADSTEP_HD static auto& slot(S& s) {
        if constexpr (I == 0) return s.largest;
        else if constexpr (I == 1) return s.sum;
        else if constexpr (I == 2) return s.reward;
        else if constexpr (I == 3) return s.theta;
        else return s.w0;
    }
    template <pack V> GRADSTEP_HD state<V> initialize(V w) const {
        using value_type = typename pack_traits<V>::value_type;
        return {V(value_type(epsilon)), V(0), V(0), V(0), w};
    }
    // The bet stays, and w0 becomes the weight from which it leads to w.
    template <pack V> GRADSTEP_HD void weights_set(std::int64_t, V w, state<V>& s) const {
        using value_type = typename pack_traits<V>::value_type;
        bet<V> const now(V(value_type(alpha)), V(smallest_number<value_type>), s);
        s.w0 = math::fnma(now.share, now.wealth, w);
    }

    template <class T> struct coeffs { T alpha, least, rate; };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {T(alpha), never_zero<T>(epsilon), T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        using math::fnma, math::maximum;
        V const h = math::mul(V(c.rate), g), size = math::abs(h), before = w;
        s.largest = maximum(size, s.largest);
        s.sum = s.sum + size;
        s.reward = math::max(fnma(h, w - s.w0, s.reward), V(0));
        s.theta = s.theta - h;
        bet<V> const now(V(c.alpha), V(c.least), s);
        w = math::fma(now.share, now.wealth, s.w0 + (w - w)); // 0, or NaN for infinity
        w = math::select((h == V(0)) & (w == w), before, w);
    }

private:
    // w - w0 is share * wealth.
    template <class V> struct bet {
        V share, wealth;
        GRADSTEP_HD bet(V alpha, V least, state<V> const& s) {
            V const largest = math::max(s.largest, least);
            share = math::div(s.theta, math::max(s.sum + largest, alpha * largest));
            wealth = math::div(largest + s.reward, largest);
        }
    };
};
static_assert(rule<cocob>);
} // namespace gradstep
