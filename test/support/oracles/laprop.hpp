#pragma once
/// The rules that divide a gradient by the root before it enters the momentum: laprop and adopt.

#include <gradstep/rules/adopt.hpp>
#include <gradstep/rules/laprop.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// Ziyin, Wang & Ueda 2020, arXiv:2002.04839, algorithm 1.
struct laprop : moments {
    using moments::moments;

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const v = second_moment(s[1], g), m = at.mean(beta1, s[0], exact(g) / below(v));
        return moved<2>(w, at.held(corrected(at.rate)), m, at, {m, v});
    }
};
constexpr auto line_of(gs::laprop) {
    return line<laprop>(gs::laprop{}, gs::laprop{.beta1 = 0, .beta2 = 0.5, .epsilon = 0}, gs::laprop{.epsilon = 1e-3},
                        gs::laprop{.epsilon = 1e-3, .bias_correction = false});
}

/// Taniguchi et al. 2024, arXiv:2411.02853, algorithm 2. Its gradients count from 0. The maximum
/// and the clipping are continuous: no threshold.
struct adopt {
    static constexpr bool carries = true;
    static constexpr bool bounded = true;
    real beta1, beta2, epsilon;
    now at;

    adopt(gradstep::adopt rule, now n) : beta1(rule.beta1), beta2(rule.beta2), epsilon(rule.epsilon), at(n) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        if (at.t == 1) return {exact(w), 0, {exact(s[0]), square(g)}};
        outcome const x = exact(g) / larger(sqrt(exact(s[1])), at.held(epsilon));
        outcome const most = at.held(sqrt(sqrt(exact(static_cast<real>(at.t - 1)))));
        outcome const clipped = -larger(-larger(x, -most), -most);
        outcome const m = at.mean(beta1, s[0], clipped), v = at.mean_square(beta2, s[1], exact(g));
        return moved<2>(w, at.rate_held(), m, at, {m, v});
    }
};
constexpr auto line_of(gs::adopt) {
    return line<adopt>(gs::adopt{}, gs::adopt{.beta1 = 0, .beta2 = 0.5, .epsilon = 1e-3},
                       gs::adopt{.beta1 = 0.5, .epsilon = 2});
}

} // namespace oracle
