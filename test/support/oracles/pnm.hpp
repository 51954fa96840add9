#pragma once
/// pnm and adapnm: Xie, Yuan, Zhu & Sugiyama 2021, arXiv:2103.17182, algorithms 2 and 3.

#include <gradstep/rules/adapnm.hpp>
#include <gradstep/rules/pnm.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// The momentum of odd steps and the momentum of even steps, after a step, and the direction that
/// they make.
struct positive_negative {
    outcome odd, even, direction;

    positive_negative(real beta1, real beta0, real g, real odd_before, real even_before, now const& at)
        : odd(exact(odd_before)), even(exact(even_before)) {
        bool const is_odd = at.t % 2 == 1;
        outcome &positive = is_odd ? odd : even, &negative = is_odd ? even : odd;
        // The share that stays is a product of the host, and what is left to 1 a difference.
        outcome const stays = exact(beta1) * exact(beta1), enters = exact(1) - stays;
        positive = at.fma(at.held(stays), positive, at.held(enters) * exact(g));
        // The norm of the weights, as the larger one times sqrt(1 + r^2), r <= 1 the quotient:
        // under the root the rounding of r counts at most once and the sum once, the root halves
        // both; the root and the product round once each.
        outcome const more = exact(1) + exact(beta0), less = exact(beta0);
        real const length = std::hypot(more.value, less.value);
        outcome const norm{length, more.error + 3 * length};
        direction = at.fnma(at.held(less / norm), negative, at.held(more / norm) * positive);
    }
};

struct pnm {
    static constexpr bool carries = true;
    real beta1, beta0;
    now at;

    pnm(gradstep::pnm rule, now n) : beta1(rule.beta1), beta0(rule.beta0), at(n) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        positive_negative const step(beta1, beta0, g, s[0], s[1], at);
        return moved<2>(w, at.rate_held(), step.direction, at, {step.odd, step.even});
    }
};
constexpr auto line_of(gs::pnm) {
    return line<pnm>(gs::pnm{}, gs::pnm{.beta1 = 0.5, .beta0 = 0.3}, gs::pnm{.beta1 = 0, .beta0 = -0.7});
}

struct adapnm : moments {
    real beta0;

    adapnm(gradstep::adapnm rule, now n) : moments(rule, n), beta0(rule.beta0) {}

    result<4> operator()(real w, real g, std::array<real, 4> s) const {
        positive_negative const step(beta1, beta0, g, s[0], s[1], at);
        outcome const v = second_moment(s[2], g), most = larger(exact(s[3]), v);
        return stepped<4>(w, step.direction, below(most), {step.odd, step.even, v, most});
    }
};
constexpr auto line_of(gs::adapnm) {
    return line<adapnm>(gs::adapnm{}, gs::adapnm{.beta1 = 0.5, .beta2 = 0.5, .beta0 = 0.3, .epsilon = 0},
                        gs::adapnm{.beta0 = 0, .epsilon = 1e-3, .epsilon_place = gs::epsilon::inside},
                        gs::adapnm{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat});
}

} // namespace oracle
