#pragma once
/// optimistic_sgd and optimistic_adam, which take back a part of the step before.

#include <gradstep/rules/optimistic_adam.hpp>
#include <gradstep/rules/optimistic_sgd.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// (alpha + beta) * x - beta * before, and alpha * x at the first step, before which there is
/// nothing.
inline outcome optimistic(real alpha, real beta, outcome x, outcome before, now const& at) {
    real const of_before = at.t == 1 ? 0 : beta;
    return at.fnma(at.held(of_before), before, at.held(exact(alpha) + exact(of_before)) * x);
}

struct optimistic_sgd {
    static constexpr bool carries = true;
    static std::vector<std::string> overwritten() { return {"p"}; }
    real alpha, beta;
    now at;

    optimistic_sgd(gradstep::optimistic_sgd rule, now n) : alpha(rule.alpha), beta(rule.beta), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        return moved<1>(w, at.rate_held(), optimistic(alpha, beta, exact(g), exact(s[0]), at), at, {exact(g)});
    }
};
constexpr auto line_of(gs::optimistic_sgd) {
    return line<optimistic_sgd>(gs::optimistic_sgd{}, gs::optimistic_sgd{.alpha = 0.7, .beta = 0.3});
}

/// Daskalakis et al. 2018, algorithm 1; with Nesterov's look-ahead, the direction of nesterov_adam
/// (Dozat 2016).
struct optimistic_adam : moments {
    static std::vector<std::string> overwritten() { return {"p"}; }
    real alpha, beta;
    outcome of_m, of_g;

    optimistic_adam(gradstep::optimistic_adam rule, now n)
        : moments(rule, n), alpha(rule.alpha), beta(rule.beta),
          of_m(rule.nesterov ? exact(beta1) / bias(beta1, n.t + 1) : exact(1) / m_bias),
          of_g(rule.nesterov ? (exact(1) - exact(beta1)) / m_bias : exact(0)) {}

    result<3> operator()(real w, real g, std::array<real, 3> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        outcome const u = at.fma(at.held(of_m), m, at.held(of_g) * exact(g)) / below(v);
        return moved<3>(w, at.rate_held(), optimistic(alpha, beta, u, exact(s[2]), at), at, {m, v, u});
    }
};
constexpr auto line_of(gs::optimistic_adam) {
    return line<optimistic_adam>(
        gs::optimistic_adam{}, gs::optimistic_adam{.alpha = 0.7, .beta = 0.3, .beta1 = 0, .beta2 = 0.5, .epsilon = 0},
        gs::optimistic_adam{.epsilon = 1e-3, .nesterov = true, .epsilon_place = gs::epsilon::inside},
        gs::optimistic_adam{.beta = 0, .epsilon = 1e-3, .epsilon_place = gs::epsilon::hat});
}

} // namespace oracle
