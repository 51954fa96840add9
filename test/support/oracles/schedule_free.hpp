#pragma once
/// schedule_free_sgd, schedule_free_adam and schedule_free_radam, from Defazio et al. 2024,
/// arXiv:2405.15682. The sums over all steps are given, as the clock has them:
/// test/averaging/schedule_free.cpp checks how they come about.

#include <gradstep/rules/schedule_free_adam.hpp>
#include <gradstep/rules/schedule_free_radam.hpp>
#include <gradstep/rules/schedule_free_sgd.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

/// The two points and the weights of the average.
struct two_points {
    static constexpr bool carries = true;                                       // y goes to z
    template <class Rule> static bool keeps_rates(Rule const&) { return true; } // in z
    template <class Rule> static bool decays(Rule const& rule) {
        if constexpr (requires { rule.decay; }) return rule.decay != 0;
        else return false;
    }
    real beta, decay = 0;
    now at;
    outcome share = exact(0); // c, of the host

    template <class Rule> two_points(Rule const& rule, real interpolation, now n) : beta(interpolation), at(n) {
        if constexpr (requires { rule.decay; }) decay = rule.decay;
        real const all = n.state[0], highest = n.state[1];
        if (all == 0) return;
        outcome const of_t = pow(exact(static_cast<real>(n.t)), exact(rule.step_power)),
                      of_rate = pow(exact(highest), exact(rule.rate_power));
        share = of_t * of_rate / exact(all);
    }

protected:
    // y <- (1 - c) y + c z - lr (1 - beta (1 - c)) u,  z <- z - lr u.
    template <std::size_t Slots>
    result<Slots> along(real y, real z, outcome u, outcome rate, std::array<outcome, Slots> state) const {
        if (decay != 0) u = at.fma(at.held(decay), exact(y), u);
        outcome const move = rate * ((exact(1) - exact(beta)) + exact(beta) * share);
        outcome const toward = at.fma(at.held(share), exact(z) - exact(y), exact(y));
        outcome const after = at.fnma(at.held(move), u, toward);
        state[0] = at.fnma(at.held(rate), u, exact(z));
        return {after, after.value - y, state};
    }
};

struct schedule_free_sgd : two_points {
    schedule_free_sgd(gradstep::schedule_free_sgd rule, now n) : two_points(rule, rule.beta, n) {}

    result<1> operator()(real y, real g, std::array<real, 1> s) const {
        return along<1>(y, s[0], exact(g), exact(at.rate), {});
    }
};
constexpr auto line_of(gs::schedule_free_sgd) {
    return line<schedule_free_sgd>(gs::schedule_free_sgd{},
                                   gs::schedule_free_sgd{.beta = 0.5, .step_power = 1.5, .rate_power = 0},
                                   gs::schedule_free_sgd{.beta = 1, .rate_power = 0.5});
}

/// Algorithm 1, with the bias correction of v beside v, as the package of the authors has it.
struct schedule_free_adam : two_points {
    real beta2, epsilon;
    outcome v_bias;

    template <class Rule>
    schedule_free_adam(Rule const& rule, now n)
        : two_points(rule, rule.beta1, n), beta2(rule.beta2), epsilon(rule.epsilon), v_bias(bias(rule.beta2, n.t)) {}

    result<2> operator()(real y, real g, std::array<real, 2> s) const {
        outcome const v = at.mean_square(beta2, s[1], exact(g));
        return along<2>(y, s[0], exact(g) / below(v), exact(at.rate), {exact(0), v});
    }

protected:
    outcome below(outcome v) const { return at.fma(at.held(exact(1) / sqrt(v_bias)), sqrt(v), at.held(epsilon)); }
};
constexpr auto line_of(gs::schedule_free_adam) {
    return line<schedule_free_adam>(gs::schedule_free_adam{},
                                    gs::schedule_free_adam{.beta1 = 0.5, .beta2 = 0.5, .epsilon = 0, .rate_power = 0},
                                    gs::schedule_free_adam{.epsilon = 1e-3, .decay = 0.25, .step_power = 1});
}

/// The same with the rectification of Liu et al. 2020, algorithm 2.
struct schedule_free_radam : schedule_free_adam {
    outcome rate = exact(0);
    bool rectified = false, unclear = false;

    schedule_free_radam(gradstep::schedule_free_radam rule, now n) : schedule_free_adam(rule, n) {
        outcome const one = exact(1), two = exact(2), four = exact(4), t = exact(static_cast<real>(at.t));
        outcome const longest = two / (one - exact(beta2)) - one;
        outcome const power = pow(exact(beta2), t), length = longest - two * t * power / v_bias;
        unclear = abs(length.value - 4) < std::numeric_limits<double>::epsilon() / 2 * length.error;
        rectified = length.value > 4;
        if (rectified) {
            outcome const above = (length - four) * (length - two) * longest;
            rate = exact(at.rate) * sqrt(above / ((longest - four) * (longest - two) * length));
        } else if (rule.sgd_phase) {
            rate = exact(at.rate);
        }
    }

    result<2> operator()(real y, real g, std::array<real, 2> s) const {
        outcome const v = at.mean_square(beta2, s[1], exact(g));
        auto out = along<2>(y, s[0], rectified ? exact(g) / below(v) : exact(g), rate, {exact(0), v});
        out.at_threshold = unclear;
        return out;
    }
};
constexpr auto line_of(gs::schedule_free_radam) {
    return line<schedule_free_radam>(
        gs::schedule_free_radam{},
        gs::schedule_free_radam{.beta1 = 0.5, .beta2 = 0.75, .epsilon = 1e-3, .decay = 0.25, .sgd_phase = true},
        gs::schedule_free_radam{.epsilon = 0, .step_power = 1, .rate_power = 1});
}

} // namespace oracle
