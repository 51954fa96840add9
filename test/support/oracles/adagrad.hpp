#pragma once
/// The rules that divide by the root of a sum of squares, or of a moving mean of them, without bias
/// correction: adagrad, two_buffer_adagrad, decayed_adagrad, proximal_adagrad, adadelta, and the
/// four of rmsprop.

#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/centered_momentum_rmsprop.hpp>
#include <gradstep/rules/centered_rmsprop.hpp>
#include <gradstep/rules/decayed_adagrad.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/proximal_adagrad.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/two_buffer_adagrad.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

struct adagrad {
    static constexpr bool carries = false;
    real epsilon;
    gradstep::epsilon place;
    now at;

    adagrad(gradstep::adagrad rule, now n) : epsilon(rule.epsilon), place(rule.epsilon_place), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const n = at.fma(exact(g), exact(g), exact(s[0]));
        return moved<1>(w, at.rate_held(), exact(g) / root(n, epsilon, place, at), at, {n});
    }
};
constexpr auto line_of(gs::adagrad) {
    return line<adagrad>(gs::adagrad{}, gs::adagrad{.epsilon = 0, .initial_accumulator = 0.1},
                         gs::adagrad{.epsilon = 1e-7, .epsilon_place = gs::epsilon::inside});
}

/// The squares of a period are summed apart from those before it.
struct two_buffer_adagrad {
    static constexpr bool carries = false;
    real epsilon;
    gradstep::epsilon place;
    std::int64_t period;
    now at;

    two_buffer_adagrad(gradstep::two_buffer_adagrad rule, now n)
        : epsilon(rule.epsilon), place(rule.epsilon_place), period(rule.period), at(n) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const n = at.fma(exact(g), exact(g), exact(s[0])), sum = exact(s[1]) + n;
        bool const ends = at.t % period == 0;
        outcome const d = exact(g) / root(sum, epsilon, place, at);
        return moved<2>(w, at.rate_held(), d, at, {ends ? exact(0) : n, ends ? sum : exact(s[1])});
    }
};
constexpr auto line_of(gs::two_buffer_adagrad) {
    return line<two_buffer_adagrad>(
        gs::two_buffer_adagrad{}, gs::two_buffer_adagrad{.epsilon = 0, .initial_accumulator = 0.1, .period = 3},
        gs::two_buffer_adagrad{.epsilon = 1e-7, .period = 3, .epsilon_place = gs::epsilon::inside});
}

struct decayed_adagrad {
    static constexpr bool carries = false;
    real rho, epsilon;
    now at;

    decayed_adagrad(gradstep::decayed_adagrad rule, now n) : rho(rule.rho), epsilon(rule.epsilon), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const n = at.mean_square(rho, s[0], exact(g));
        outcome const below = root(n, epsilon, gradstep::epsilon::outside, at);
        return moved<1>(w, at.rate_held(), exact(g) / below, at, {n});
    }
};
constexpr auto line_of(gs::decayed_adagrad) {
    return line<decayed_adagrad>(gs::decayed_adagrad{}, gs::decayed_adagrad{.rho = 0.5, .epsilon = 1e-3});
}

/// Duchi & Singer 2009 (forward-backward splitting) with the rate of each element, lr / sqrt(n),
/// for step and threshold.
struct proximal_adagrad {
    static bool carries(gradstep::proximal_adagrad rule) { return rule.l1 != 0 || rule.l2 != 0; }
    static bool decays(gradstep::proximal_adagrad rule) { return rule.initial_accumulator != 0 && carries(rule); }
    real l1, l2;
    now at;

    proximal_adagrad(gradstep::proximal_adagrad rule, now n) : l1(rule.l1), l2(rule.l2), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const n = at.fma(exact(g), exact(g), exact(s[0]));
        if (n.value == 0) return {exact(w), 0, {n}};
        outcome const below = sqrt(n), rate = at.rate_held() / below;
        outcome const stepped = at.fnma(rate, exact(g), exact(w)), threshold = at.held(l1) * rate;
        outcome const left = abs(stepped) - threshold;
        // The rate and l2 are rounded to T each; so is their product there or, on the host, in
        // double.
        outcome const pull = at.rate_held() * at.held(l2);
        outcome const shrunk = l2 == 0 ? left : left / (exact(1) + pull / below);
        real const sign = stepped.value < 0 ? -1 : 1;
        bool const stays = left.value > 0 || l1 == 0;
        return {stays ? outcome{sign * shrunk.value, shrunk.error} : exact(0),
                rate.value * g,
                {n},
                l1 != 0 && at.near(left)};
    }
};
constexpr auto line_of(gs::proximal_adagrad) {
    return line<proximal_adagrad>(gs::proximal_adagrad{}, gs::proximal_adagrad{.l1 = 0.01, .l2 = 0.25},
                                  gs::proximal_adagrad{.l1 = 0.5, .initial_accumulator = 0});
}

struct adadelta {
    static constexpr bool carries = false;
    real rho, epsilon;
    now at;

    adadelta(gradstep::adadelta rule, now n) : rho(rule.rho), epsilon(rule.epsilon), at(n) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        auto const inside = gradstep::epsilon::inside;
        outcome const n = at.mean_square(rho, s[0], exact(g));
        outcome const ratio = root(exact(s[1]), epsilon, inside, at) / root(n, epsilon, inside, at);
        outcome const d = ratio * exact(g), u = at.mean_square(rho, s[1], d);
        return moved<2>(w, at.rate_held(), d, at, {n, u});
    }
};
constexpr auto line_of(gs::adadelta) {
    return line<adadelta>(gs::adadelta{}, gs::adadelta{.rho = 0.5, .epsilon = 1e-3});
}

/// The parts that the four of rmsprop share.
template <bool Centered, bool Buffered> struct any_rmsprop {
    static constexpr std::size_t slots = 1 + Centered + Buffered;
    static constexpr bool carries = Buffered;
    template <class Rule> static bool keeps_rates(Rule const& rule) {
        if constexpr (Buffered) return rule.rate_place == gradstep::learning_rate::inside;
        else return false;
    }

    real rho, epsilon, mu = 0;
    gradstep::epsilon place;
    bool rate_inside;
    now at;

    template <class Rule>
    any_rmsprop(Rule const& rule, now n)
        : rho(rule.rho), epsilon(rule.epsilon), place(rule.epsilon_place), rate_inside(keeps_rates(rule)), at(n) {
        if constexpr (Buffered) mu = rule.mu;
    }

    result<slots> operator()(real w, real g, std::array<real, slots> s) const {
        result<slots> out{};
        outcome const n = at.mean_square(rho, s[0], exact(g));
        out.state[0] = n;
        outcome variance = n;
        if constexpr (Centered) {
            outcome const a = at.mean(rho, s[1], exact(g));
            out.state[1] = a;
            variance = at.fnma(a, a, n);
            // A variance of which little is left has no digits, and first order says nothing of its
            // root.
            out.at_threshold = at.near({variance.value, 64 * variance.error});
            variance.value = std::max<real>(variance.value, 0);
        }
        outcome const scaled = exact(g) / root(variance, epsilon, place, at);
        auto const with = [&](result<slots> x) {
            out.weight = x.weight, out.update = x.update;
            return out;
        };
        if constexpr (!Buffered) {
            return with(moved(w, at.rate_held(), scaled, at, out.state));
        } else {
            outcome const old = exact(s[slots - 1]), mu_held = at.held(mu);
            outcome& b = out.state[slots - 1];
            b = at.fma(mu_held, old, rate_inside ? at.rate_held() * scaled : scaled);
            return with(rate_inside ? moved(w, b, out.state) : moved(w, at.rate_held(), b, at, out.state));
        }
    }
};
using rmsprop = any_rmsprop<false, false>;
using centered_rmsprop = any_rmsprop<true, false>;
using momentum_rmsprop = any_rmsprop<false, true>;
using centered_momentum_rmsprop = any_rmsprop<true, true>;

constexpr auto line_of(gs::rmsprop) {
    return line<rmsprop>(gs::rmsprop{}, gs::rmsprop{.rho = 0.5, .initial_accumulator = 1},
                         gs::rmsprop{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside});
}
constexpr auto line_of(gs::centered_rmsprop) {
    return line<centered_rmsprop>(gs::centered_rmsprop{},
                                  gs::centered_rmsprop{.rho = 0.5, .epsilon = 1e-3, .initial_accumulator = 1},
                                  gs::centered_rmsprop{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside});
}
constexpr auto line_of(gs::momentum_rmsprop) {
    return line<momentum_rmsprop>(
        gs::momentum_rmsprop{},
        gs::momentum_rmsprop{.rho = 0.5, .mu = 0.5, .initial_accumulator = 1, .rate_place = gs::learning_rate::inside},
        gs::momentum_rmsprop{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside});
}
constexpr auto line_of(gs::centered_momentum_rmsprop) {
    return line<centered_momentum_rmsprop>(
        gs::centered_momentum_rmsprop{},
        gs::centered_momentum_rmsprop{
            .rho = 0.5, .mu = 0.5, .initial_accumulator = 1, .rate_place = gs::learning_rate::inside},
        gs::centered_momentum_rmsprop{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside});
}

} // namespace oracle
