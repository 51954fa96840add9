#pragma once
/// The rules that move along a mean of the gradient and its average: qhm and qhadam.

#include <gradstep/rules/qhadam.hpp>
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

/// Ma & Yarats 2019, section 4.
struct qhadam : moments {
    static bool carries(gradstep::qhadam rule) { return rule.nu1 != 0; }
    real nu1, nu2;

    qhadam(gradstep::qhadam rule, now n) : moments(rule, n), nu1(rule.nu1), nu2(rule.nu2) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        // The host computes nu1 / m_bias and (1 - nu2) * v_bias, which brings g^2 to the scale of
        // v.
        outcome const gain = nu2 < 0.5L ? exact(1) - exact(nu2) : exact(1 - nu2);
        outcome const mean = at.fma(at.held(nu2), v, at.held(gain * v_bias) * square(g));
        outcome const direction = at.fma(at.held(corrected(nu1)), m, at.one_minus(nu1) * exact(g));
        return moved<2>(w, at.rate_held(), direction / below(mean), at, {m, v});
    }
};
constexpr auto line_of(gs::qhadam) {
    return line<qhadam>(gs::qhadam{}, gs::qhadam{.beta1 = 0.5, .beta2 = 0.5, .nu1 = 0.25, .nu2 = 0.75, .epsilon = 0},
                        gs::qhadam{.beta1 = 0.9, .nu1 = 1, .epsilon = 1e-3},
                        gs::qhadam{.nu1 = 0, .nu2 = 0, .epsilon = 1e-3});
}

} // namespace oracle
