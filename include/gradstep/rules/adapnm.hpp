#pragma once
#include <gradstep/policy/policy.hpp>
#include <gradstep/rules/pnm.hpp>

namespace gradstep {
/// AdaPNM: `pnm` divided by the second moment of AMSGrad. Xie, Yuan, Zhu & Sugiyama 2021,
/// arXiv:2103.17182, Algorithm 3.
///
///     t odd:    odd <- beta1^2 * odd + (1 - beta1^2) * g,      a = odd,  b = even
///     t even:   even <- beta1^2 * even + (1 - beta1^2) * g,    a = even, b = odd
///     v <- beta2 * v + (1 - beta2) * g^2,    v_max <- max(v_max, v)
///     d = ((1 + beta0) * a - beta0 * b) / sqrt((1 + beta0)^2 + beta0^2)
///     w <- w - lr / (1 - beta1^t) * d / root
///
/// root as in `adam`, by epsilon_place, of v_max. State: odd, even, v, v_max, initially zero.
/// Ranges: as in `adam` and `pnm`. In a table, the momenta of an inactive row decay every second
/// step: only `touch_only`.
/// Other frameworks: the authors' program calls beta0 the third of its betas, and has an option
/// without v_max. pytorch_optimizer has epsilon-hat, and adds 1e-15 to v_max under the root.
struct adapnm {
    double beta1 = 0.9, beta2 = 0.999, beta0 = 1, epsilon = 1e-8;
    gradstep::epsilon epsilon_place = gradstep::epsilon::outside;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &adapnm::beta1, ranges::fraction},
                            hyperparameter{"beta2", &adapnm::beta2, ranges::fraction},
                            hyperparameter{"beta0", &adapnm::beta0, ranges::finite},
                            hyperparameter{"epsilon", &adapnm::epsilon, ranges::non_negative},
                            hyperparameter{"epsilon_place", &adapnm::epsilon_place, epsilon_positions::corrected}};

    template <class X> struct state { X odd, even, v, v_max; };
    static constexpr std::array state_names{"odd", "even", "v", "v_max"};
    static constexpr int newton_roots = 1;

    template <class T> struct coeffs {
        moving_average<T> average, second;
        T is_odd, of_a, of_b, rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        double const norm = detail::pnm_norm(beta0);
        return {moving_average<T>(beta1 * beta1),
                moving_average<T>(beta2),
                T(now.t % 2),
                T((1 + beta0) / norm),
                T(beta0 / norm),
                T(now.rate / detail::bias(beta1, now.t)),
                {epsilon, epsilon_place, detail::bias(beta2, now.t)}};
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        auto const is_odd = V(c.is_odd) != V(0);
        V const a = c.average(math::select(is_odd, s.odd, s.even), g), b = math::select(is_odd, s.even, s.odd);
        s.v = c.second.of_square(s.v, g);
        s.v_max = math::maximum(s.v, s.v_max);
        V const d = math::fnma(V(c.of_b), b, V(c.of_a) * a);
        w = math::fnma(V(c.rate), math::div(d, c.root.corrected(s.v_max)), w);
        s.odd = math::select(is_odd, a, b);
        s.even = math::select(is_odd, b, a);
    }
};
static_assert(rule<adapnm>);
} // namespace gradstep
