#pragma once

#include <array>
#include <cmath>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

// clang-format off
// [rule]
/// Adam that moves no weight against its own gradient: the step is left out if m and g have
/// different signs. After Liang et al. 2024, arXiv:2411.16085, without their rescaling of the other
/// steps.
struct cautious_adam {
    double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    static constexpr auto hyperparameters = gs::hyperparameter_list{
        gs::hyperparameter{"beta1", &cautious_adam::beta1, gs::ranges::fraction},
        gs::hyperparameter{"beta2", &cautious_adam::beta2, gs::ranges::fraction},
        gs::hyperparameter{"epsilon", &cautious_adam::epsilon, gs::ranges::non_negative}};

    template <class X> struct state { X m, v; };
    static constexpr std::array state_names{"m", "v"};

    template <class T> struct coeffs {
        gs::moving_average<T> first, second;
        T rate, root_scale, epsilon;
    };
    template <class T> coeffs<T> prepare(gs::step_info now) const { // once a step, in double
        double const t = static_cast<double>(now.t);
        double const correction1 = 1 - std::pow(beta1, t), correction2 = 1 - std::pow(beta2, t);
        return {gs::moving_average<T>(beta1), gs::moving_average<T>(beta2), T(now.rate / correction1),
                T(1 / std::sqrt(correction2)), gs::never_zero<T>(epsilon)};
    }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>& s) {
        s.m = c.first(s.m, g);
        s.v = c.second.of_square(s.v, g);
        V const step = gs::math::div(s.m, gs::math::fma(V(c.root_scale), gs::math::sqrt(s.v), V(c.epsilon)));
        V const agreement = gs::math::sign(s.m) * gs::math::sign(g); // m * g could underflow to 0
        w = gs::math::select(agreement <= V(T(0)), w, gs::math::fnma(V(c.rate), step, w)); // a NaN reaches the weight
    }
};
static_assert(gs::check_rule<cautious_adam>());
// [rule]
// clang-format on
