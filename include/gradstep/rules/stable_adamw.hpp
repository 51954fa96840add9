#pragma once
#include <gradstep/policy/policy.hpp>

namespace gradstep {
/// StableAdamW: AdamW with the update clipping of Adafactor. A gradient that is large beside its
/// second moment lowers the rate of its tensor. Wortsman et al. 2023, arXiv:2304.13013, Algorithm
/// 2.
///
///     m <- beta1 * m + (1 - beta1) * g
///     v <- beta2 * v + (1 - beta2) * g^2,   x = v / (1 - beta2^t)
///     s <- max(1, sqrt(mean(g^2 / max(x, epsilon^2))))        over the tensor (a row of a table)
///     w <- w - lr / s * (m / (1 - beta1^t) / (sqrt(x) + epsilon) + weight_decay * w)
///
/// bias_correction = false: 1 in place of both 1 - beta^t.
///
/// State: m, v, initially zero. Ranges: 0 <= beta1, beta2 < 1; epsilon, weight_decay >= 0. The
/// decay uses the lowered rate, so `decoupled` cannot replace it. The paper writes the bias
/// corrections into the betas; its moments are the corrected ones.
/// Other frameworks: equal to pytorch_optimizer, whose weight_decay is 0.01, and which stores the
/// corrected moments.
struct stable_adamw {
    double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8, weight_decay = 0;
    bool bias_correction = true;
    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"beta1", &stable_adamw::beta1, ranges::fraction},
                            hyperparameter{"beta2", &stable_adamw::beta2, ranges::fraction},
                            hyperparameter{"epsilon", &stable_adamw::epsilon, ranges::non_negative},
                            hyperparameter{"weight_decay", &stable_adamw::weight_decay, ranges::non_negative},
                            hyperparameter{"bias_correction", &stable_adamw::bias_correction}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};
    GRADSTEP_INLINE state<double> decay() const { return {beta1, beta2}; }

    template <class T> struct coeffs {
        moving_average<T> first, second;
        T m_scale, weight_decay, rate;
        root_terms<T> root;
    };
    template <class T> coeffs<T> prepare(step_info now) const {
        return {moving_average<T>(beta1),
                moving_average<T>(beta2),
                T(1 / detail::bias(beta1, now.t, bias_correction)),
                T(weight_decay),
                T(now.rate),
                {epsilon, gradstep::epsilon::outside, detail::bias(beta2, now.t, bias_correction)}};
    }
    // As in adam. A decay can work against the momentum.
    template <class T> std::optional<coeffs<T>> step_bound(step_info from, std::int64_t to) const {
        if (weight_decay != 0 || beta1 * beta1 > beta2) return {};
        return detail::with_smallest_root<T>(*this, from, to);
    }

    template <class X> struct partial_sums { X squares; };
    template <class T, pack V>
    GRADSTEP_HD static partial_sums<wide_pack<V>> accumulate(coeffs<T> const& c, V, V g, state<V> const& s) {
        V const root = V(c.root.scale) * math::sqrt(c.second.of_square(s.v, g));
        return {math::wide_square(math::div(g, math::max(root, V(c.root.outside))))};
    }
    template <class T>
    GRADSTEP_HD static T finalize(coeffs<T> const& c, partial_sums<double> row, double width,
                                  gradstep::row_state<stable_adamw, T>&) {
        double const rms = math::sqrt(math::div(row.squares, width));
        return T(math::div(double(c.rate), math::max(rms, 1.0)));
    }
    template <class T, pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, T settled, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        V const of_moments = math::div(V(c.m_scale) * s.m, c.root.corrected_outside(s.v));
        w = math::fnma(V(settled), math::fma(V(c.weight_decay), w, of_moments), w);
    }
};
static_assert(row_wise_rule<stable_adamw>);
} // namespace gradstep
