#pragma once
/// The rules that move along a mean of the gradient and its average: qhm.

#include <gradstep/rules/qhm.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// Ma & Yarats 2019, arXiv:1810.06801, eq. 3-4.
struct qhm {
    static bool carries(gradstep::qhm rule) { return rule.nu != 0; }
    real beta, nu;
    now at;

    qhm(gradstep::qhm rule, now n) : beta(rule.beta), nu(rule.nu), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = at.mean(beta, s[0], exact(g));
        return moved<1>(w, at.rate_held(), at.fma(at.held(nu), m, at.one_minus(nu) * exact(g)), at, {m});
    }
};
constexpr auto line_of(gs::qhm) {
    return line<qhm>(gs::qhm{}, gs::qhm{.beta = 0.5, .nu = 0.25}, gs::qhm{.nu = 0}, gs::qhm{.beta = 0.9, .nu = 1});
}

} // namespace oracle
