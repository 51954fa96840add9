#pragma once
/// The rules that divide a gradient by the root before it enters the momentum: laprop.

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
    return line<laprop>(gs::laprop{}, gs::laprop{.beta1 = 0, .beta2 = 0.5, .epsilon = 0}, gs::laprop{.epsilon = 1e-3});
}

} // namespace oracle
