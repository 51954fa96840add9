#pragma once
/// sgd, add_delta, momentum, nesterov; dgc_momentum before its ramp.

#include <gradstep/compression.hpp>
#include <gradstep/rules/add_delta.hpp>
#include <gradstep/rules/dgc_momentum.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/sgd.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

struct sgd {
    static constexpr bool carries = false; // a weight without gradient stands still, whatever the state is
    now at;

    sgd(gradstep::sgd, now n) : at(n) {}

    result<0> operator()(real w, real g, std::array<real, 0>) const {
        return moved<0>(w, at.rate_held(), exact(g), at, {});
    }
};
constexpr auto line_of(gs::sgd) { return line<sgd>(gs::sgd{}); }

struct add_delta {
    static constexpr bool carries = false;
    now at;

    add_delta(gradstep::add_delta, now n) : at(n) {}

    result<0> operator()(real w, real g, std::array<real, 0>) const {
        return moved<0>(w, at.rate_held(), exact(-g), at, {});
    }
};
constexpr auto line_of(gs::add_delta) { return line<add_delta>(gs::add_delta{}); }

/// The buffer of momentum and nesterov. It keeps gradients where the rate is outside, and steps,
/// which are added, where it is inside.
struct velocity {
    static constexpr bool carries = true;
    template <class Rule> static bool keeps_rates(Rule const& rule) {
        return rule.rate_place == gradstep::learning_rate::inside;
    }

    real mu, dampening;
    bool rate_inside;
    now at;

    template <class Rule>
    velocity(Rule const& rule, now n) : mu(rule.mu), dampening(rule.dampening), rate_inside(keeps_rates(rule)), at(n) {}

protected:
    outcome advanced(real before, real g) const {
        // At the first step there is nothing to damp.
        real const undamped = at.t == 1 ? 1 : 1 - dampening;
        outcome const gain = at.t == 1 ? exact(1) : at.one_minus(dampening);
        // Two operations of the host: 1 - dampening, and the product.
        outcome const with_rate = at.held({at.rate * undamped, 2 * at.rate * undamped});
        outcome const part = rate_inside ? -(with_rate * exact(g)) : gain * exact(g);
        return at.fma(at.held(mu), exact(before), part);
    }
};

struct momentum : velocity {
    using velocity::velocity;

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = advanced(s[0], g);
        if (rate_inside) return moved<1>(w, -m, {m});
        return moved<1>(w, at.rate_held(), m, at, {m});
    }
};
constexpr auto line_of(gs::momentum) {
    return line<momentum>(gs::momentum{}, gs::momentum{.mu = 0}, gs::momentum{.mu = 0.5, .dampening = 0.25},
                          gs::momentum{.dampening = 0.1, .rate_place = gs::learning_rate::inside});
}

struct nesterov : velocity {
    using velocity::velocity;

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = advanced(s[0], g);
        if (rate_inside) return moved<1>(w, -at.fma(at.held(mu), m, -(at.rate_held() * exact(g))), {m});
        return moved<1>(w, at.rate_held(), at.fma(at.held(mu), m, exact(g)), at, {m});
    }
};
constexpr auto line_of(gs::nesterov) {
    return line<nesterov>(gs::nesterov{}, gs::nesterov{.mu = 0.5}, gs::nesterov{.mu = 0.5, .dampening = 0.25},
                          gs::nesterov{.dampening = 0.1, .rate_place = gs::learning_rate::inside});
}

/// Before the ramp: momentum or nesterov in u, and v is left alone. The steps after it are
/// compression/dgc_momentum.cpp's.
struct dgc_momentum {
    static constexpr bool carries = true;
    static std::vector<std::string> unread(gradstep::dgc_momentum const&) { return {"v"}; }

    momentum plain;
    nesterov ahead;
    bool is_ahead;

    dgc_momentum(gradstep::dgc_momentum const& rule, now n)
        : plain(gradstep::momentum{.mu = rule.mu}, n), ahead(gradstep::nesterov{.mu = rule.mu}, n),
          is_ahead(rule.nesterov) {}

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        result<1> const step = is_ahead ? ahead(w, g, {s[0]}) : plain(w, g, {s[0]});
        return {step.weight, step.update, {step.state[0], exact(s[1])}, step.at_threshold};
    }
};
constexpr auto line_of(gs::dgc_momentum) {
    return line<dgc_momentum>(gs::dgc_momentum{.rampup_begin_step = 1'000'000},
                              gs::dgc_momentum{.mu = 0.5, .rampup_begin_step = 1'000'000, .nesterov = true});
}

} // namespace oracle
