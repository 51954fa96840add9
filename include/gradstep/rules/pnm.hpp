#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// sqrt((1 + x)^2 + x^2), without overflow: std::hypot would need a glibc of 2022, 2.35.
inline double pnm_norm(double x) {
    double const a = std::abs(1 + x), b = std::abs(x), most = std::max(a, b), r = std::min(a, b) / most;
    return most * std::sqrt(std::fma(r, r, 1));
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep {
/// Positive-negative momentum: two momenta, of the gradients of odd and of even steps; their
/// weighted difference has more gradient noise, which helps to find flat minima. Xie, Yuan, Zhu &
/// Sugiyama 2021, arXiv:2103.17182, Algorithm 2.
///
///     t odd:    odd <- beta1^2 * odd + (1 - beta1^2) * g,      a = odd,  b = even
///     t even:   even <- beta1^2 * even + (1 - beta1^2) * g,    a = even, b = odd
///     w <- w - lr * ((1 + beta0) * a - beta0 * b) / sqrt((1 + beta0)^2 + beta0^2)
///
/// State: odd, even, initially zero. Ranges: 0 <= beta1 < 1, beta0 finite; beta0 > 0 adds noise,
/// and -1 < beta0 < 0 is momentum that averages. There is no bias correction. The step is linear,
/// so tables catch up exactly. Under `touch_only`, a row that is only in batches of odd steps never
/// changes `even`.
/// Other frameworks: the authors' program calls beta0 the second of its betas.
struct pnm {
    double beta1 = 0.9, beta0 = 1;
    static constexpr auto hyperparameters = hyperparameter_list{hyperparameter{"beta1", &pnm::beta1, ranges::fraction},
                                                                hyperparameter{"beta0", &pnm::beta0, ranges::finite}};

    template <class X> struct state { X odd, even; };
    static constexpr std::array state_names{"odd", "even"};
    static constexpr bool is_linear = true;

    template <class T> struct coeffs {
        moving_average<T> average;
        T is_odd, of_a, of_b, rate;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const norm = detail::pnm_norm(beta0);
        return {moving_average<T>(beta1 * beta1), T(now.t % 2), T((1 + beta0) / norm), T(beta0 / norm), T(now.rate)};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        auto const is_odd = V(c.is_odd) != V(0);
        V const a = c.average(math::select(is_odd, s.odd, s.even), g), b = math::select(is_odd, s.even, s.odd);
        w = math::fnma(V(c.rate), math::fnma(V(c.of_b), b, V(c.of_a) * a), w);
        s.odd = math::select(is_odd, a, b);
        s.even = math::select(is_odd, b, a);
    }
};
static_assert(rule<pnm>);
} // namespace gradstep
