#pragma once
/// sgld and noisy_sgd. The call also gets the normal number of the element as the library has it,
/// which test/core/normal.cpp compares with the normal distribution.

#include <gradstep/rules/noisy_sgd.hpp>
#include <gradstep/rules/sgld.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

/// Welling & Teh, eq. 4: the step eps / 2 * grad U, and noise of the variance eps * temperature,
/// where eps = 2 lr.
struct sgld {
    static bool decays(gradstep::sgld const& rule) { return rule.temperature > 0; }
    static bool carries(gradstep::sgld const& rule) { return decays(rule); }

    now at;
    outcome deviation;

    sgld(gradstep::sgld const& rule, now n)
        : at(n), deviation(at.held(sqrt(exact(2 * n.rate) * exact(rule.temperature)))) {}

    result<0> operator()(real w, real g, std::array<real, 0>, real noise = 0) const {
        outcome const descended = at.fnma(at.rate_held(), exact(g), exact(w));
        return {at.fma(deviation, exact(noise), descended), at.rate * abs(g) + deviation.value * abs(noise), {}};
    }
};
constexpr auto line_of(gs::sgld) {
    return line<sgld>(gs::sgld{}, gs::sgld{.temperature = 1e-4}, gs::sgld{.temperature = 0});
}

/// Neelakantan et al., eq. 1 and 2: g + N(0, eta / (1 + t)^gamma), t from 0, in a gradient step.
struct noisy_sgd {
    static bool decays(gradstep::noisy_sgd const& rule) { return rule.eta > 0; }
    static bool carries(gradstep::noisy_sgd const& rule) { return decays(rule); }

    now at;
    outcome deviation;

    noisy_sgd(gradstep::noisy_sgd const& rule, now n) : at(n) {
        outcome const falls = pow(exact(static_cast<real>(n.t)), exact(-rule.gamma));
        deviation = at.held(exact(n.rate) * sqrt(exact(rule.eta) * falls));
    }

    result<0> operator()(real w, real g, std::array<real, 0>, real noise = 0) const {
        outcome const descended = at.fnma(at.rate_held(), exact(g), exact(w));
        return {at.fnma(deviation, exact(noise), descended), at.rate * abs(g) + deviation.value * abs(noise), {}};
    }
};
constexpr auto line_of(gs::noisy_sgd) {
    return line<noisy_sgd>(gs::noisy_sgd{}, gs::noisy_sgd{.eta = 1, .gamma = 0}, gs::noisy_sgd{.eta = 0});
}

} // namespace oracle
