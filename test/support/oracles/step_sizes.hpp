#pragma once
/// The rules that find or bound the step size of each weight: rprop, adabound, cocob; and ftml.

#include <gradstep/rules/adabound.hpp>
#include <gradstep/rules/cocob.hpp>
#include <gradstep/rules/ftml.hpp>
#include <gradstep/rules/rprop.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// The smaller one of two, as `larger`.
inline outcome smaller(outcome a, outcome b) { return -larger(-a, -b); }
inline outcome between(outcome low, outcome x, outcome high) { return smaller(larger(x, low), high); }
inline int sign_of(real x) { return x < 0 ? -1 : x > 0 ? 1 : 0; }

/// Igel & Huesken 2003, iRprop-.
struct rprop {
    static constexpr bool carries = false;
    static constexpr bool bounded = true;
    static std::vector<std::string> overwritten() { return {"eta", "p"}; }
    gradstep::rprop rule;
    now at;

    rprop(gradstep::rprop of, now n) : rule(of), at(n) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        int const change = sign_of(g) * sign_of(s[1]);
        outcome const factor = at.held(change > 0 ? rule.grow : rule.shrink);
        outcome const eta =
            change == 0 ? exact(s[0])
                        : between(at.held(rule.smallest_step), factor * exact(s[0]), at.held(rule.largest_step));
        real const kept = change < 0 ? 0 : g;
        return moved<2>(w, at.rate_held() * eta, exact(sign_of(kept)), at, {eta, exact(kept)});
    }
};
constexpr auto line_of(gs::rprop) {
    return line<rprop>(
        gs::rprop{}, gs::rprop{.initial_step = 0.3, .shrink = 0.7, .grow = 2, .smallest_step = 0.1, .largest_step = 1});
}

/// Luo et al. 2019, arXiv:1902.09843, algorithm 2 with the corrections of the authors' program: the
/// rate of a weight, without the factor lr, is clip(scale / (sqrt(v) + epsilon), low, high); the
/// weight moves by m over its inverse.
struct adabound : moments {
    real gamma, final_ratio;

    adabound(gradstep::adabound rule, now n) : moments(rule, n), gamma(rule.gamma), final_ratio(rule.final_ratio) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g), one = exact(1);
        outcome const progress = exact(gamma) * exact(static_cast<real>(at.t)), ratio = exact(final_ratio);
        // 1 / high and 1 / low: low = ratio * (1 - 1 / (progress + 1)) = ratio *
        // progress / (progress + 1).
        outcome const least = at.held(progress / (progress + one) / ratio),
                      most = at.held((progress + one) / progress / ratio);
        outcome const scale = m_bias / sqrt(v_bias); // 1 / scale in the formula above
        outcome const inverse = at.fma(at.held(scale), sqrt(v), at.held(exact(epsilon) * scale));
        return moved<2>(w, at.rate_held(), m / between(least, inverse, most), at, {m, v});
    }
};
constexpr auto line_of(gs::adabound) {
    return line<adabound>(gs::adabound{},
                          gs::adabound{.beta1 = 0, .beta2 = 0.5, .epsilon = 0, .gamma = 0.1, .final_ratio = 3},
                          gs::adabound{.epsilon = 1e-3, .gamma = 100, .final_ratio = 10},
                          gs::adabound{.epsilon = 1e-3, .bias_correction = false});
}

/// Orabona & Tommasi 2017, arXiv:1705.07795, algorithm 2, with -lr * g for its negative gradient.
/// theta / (L * max(G + L, alpha * L)) * (L + reward) is written as two quotients, since L * L
/// leaves the range of float.
struct cocob {
    static constexpr bool carries = false;
    real alpha, epsilon;
    now at;

    cocob(gradstep::cocob rule, now n) : alpha(rule.alpha), epsilon(rule.epsilon), at(n) {}

    result<5> operator()(real w, real g, std::array<real, 5> s) const {
        outcome const h = at.rate_held() * exact(g), size = abs(h), w0 = exact(s[4]);
        outcome const largest = larger(exact(s[0]), size), sum = exact(s[1]) + size;
        outcome const reward = larger(at.fnma(h, exact(w) - w0, exact(s[2])), exact(0)), theta = exact(s[3]) - h;
        std::array<outcome, 5> const state{largest, sum, reward, theta, w0};
        if (h.value == 0) return {exact(w), 0, state};
        outcome const bet = theta / larger(sum + largest, at.held(alpha) * largest);
        outcome const weight = at.fma(bet, (largest + reward) / largest, w0);
        return {weight, weight.value - w, state};
    }
};
constexpr auto line_of(gs::cocob) { return line<cocob>(gs::cocob{}, gs::cocob{.alpha = 3, .epsilon = 0}); }

/// Zheng & Kwok 2017, algorithm 1. In exact arithmetic z = -d * w after every step, from which
///     z' = -beta1 * d * w + (1 - beta1) * g - (d' - beta1 * d) * w = (1 - beta1) * g - d' * w,
///     w' = -z' / d' = w - (1 - beta1) * g / d'.
/// test/rules/ftml.cpp runs the recurrence itself.
struct ftml : moments {
    static constexpr bool carries = false;
    using moments::moments;

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const v = second_moment(s[0], g), share = (exact(1) - exact(beta1)) / m_bias;
        return moved<1>(w, at.held(exact(at.rate) * share), exact(g) / below(v), at, {v});
    }
};
constexpr auto line_of(gs::ftml) {
    return line<ftml>(gs::ftml{}, gs::ftml{.beta1 = 0, .beta2 = 0.5, .epsilon = 0}, gs::ftml{.epsilon = 1e-3});
}

} // namespace oracle
