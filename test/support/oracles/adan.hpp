#pragma once
/// adan, which keeps the last gradient.

#include <gradstep/rules/adan.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// Xie et al. 2022, arXiv:2208.06677, algorithm 1. Its betas are 1 minus these, and its (1 - beta2)
/// is the weight of the differences; the authors' code has the bias corrections.
struct adan {
    static constexpr bool carries = true;
    real beta1, beta2, beta3, epsilon, epsilon_root;
    bool by_beta2;
    now at;
    outcome m_bias, d_bias, n_bias;

    adan(gradstep::adan rule, now n)
        : beta1(rule.beta1), beta2(rule.beta2), beta3(rule.beta3), epsilon(rule.epsilon),
          epsilon_root(rule.epsilon_root), by_beta2(rule.difference_weight == gradstep::difference_weight::beta2),
          at(n), m_bias(bias(rule, beta1, n.t)), d_bias(bias(rule, beta2, n.t)), n_bias(bias(rule, beta3, n.t)) {}

    result<4> operator()(real w, real g, std::array<real, 4> s) const {
        outcome const weight = by_beta2 ? exact(beta2) : exact(1) - exact(beta2), scale = exact(1) / sqrt(n_bias);
        outcome const x = at.t == 1 ? exact(0) : exact(g) - exact(s[3]); // there is no gradient before the first
        outcome const m = at.mean(beta1, s[0], exact(g)), d = at.mean(beta2, s[1], x);
        outcome const ahead = at.fma(at.held(weight), x, exact(g));
        outcome squared = square(ahead);
        squared.error += at.u() * ahead.error * ahead.error; // where the two cancel, first order is not all
        outcome const n = at.fma(at.held(beta3), exact(s[2]), at.one_minus(beta3) * squared);
        // epsilon_root is brought to the scale of n on the host.
        outcome const inside = n + at.held(exact(epsilon_root) * n_bias);
        outcome const below = at.fma(at.held(scale), sqrt(inside), at.held(epsilon));
        outcome const sum = at.fma(at.held(weight * m_bias / d_bias), d, m);
        return moved<4>(w, at.held(exact(at.rate) / m_bias), sum / below, at, {m, d, n, exact(g)});
    }
};
constexpr auto line_of(gs::adan) {
    return line<adan>(
        gs::adan{}, gs::adan{.beta1 = 0, .beta2 = 0.5, .beta3 = 0.5, .epsilon = 0},
        gs::adan{.beta2 = 0.25, .epsilon = 1e-3, .epsilon_root = 1e-3},
        gs::adan{.epsilon = 0, .epsilon_root = 1e-8, .difference_weight = gs::difference_weight::one_minus_beta2},
        gs::adan{.epsilon_root = 1e-3, .bias_correction = false});
}

} // namespace oracle
