#pragma once
/// The rules that look at the whole model: prodigy, dog. oracle.hpp says of what parts theirs consist.

#include <gradstep/rules/dog.hpp>
#include <gradstep/rules/prodigy.hpp>

#include <support/oracles/row_wise.hpp>

namespace oracle {

/// The state of a clock after a step, of which the library may miss each number by its error.
using outcomes_of_clock = std::array<outcome, std::tuple_size_v<gs::clock_state>>;

/// What these oracles share: a sum over a tensor, and the arithmetic of the host, whose roundings are `host` each.
struct model_wise {
    now at;

    explicit model_wise(now n) : at(n) {}
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }

protected:
    outcome rounded(outcome x) const { return {x.value, x.error + at.host * abs(x.value)}; }
    outcome product(outcome a, outcome b) const { return rounded(unrounded_product(a, b)); }
    outcome sum(outcome a, outcome b) const { return added(a, b, at.host); }
    outcome quotient(outcome a, outcome b) const {
        real const x = a.value / b.value;
        return {x, a.error / abs(b.value) + abs(x) * (relative(b.error, b.value) + at.host)};
    }
    static outcome smaller(outcome a, outcome b) { return {std::min(a.value, b.value), std::max(a.error, b.error)}; }
};

/// Mishchenko & Defazio 2023, arXiv:2306.06101, algorithm 4, with the weights of the authors' package.
struct prodigy : model_wise {
    static constexpr bool carries = true;
    static std::vector<std::string> unread(gradstep::prodigy) { return {"s", "x0"}; }
    gradstep::prodigy rule;
    outcome q, first, second, beta3, share, safe_share;
    real d, most, r;

    prodigy(gradstep::prodigy of, now n) : model_wise(n), rule(of) {
        bool const begins = n.t == 1;
        d = begins ? of.d0 : n.state_before[0];
        most = begins ? of.d0 : n.state_before[1];
        r = begins ? 0 : n.state_before[2];
        outcome const c = of.use_bias_correction ? sqrt(bias(of.beta2, n.t)) / bias(of.beta1, n.t) : exact(1);
        q = exact(d) * exact(n.rate) * c;
        first = exact(d) * (exact(1) - exact(of.beta1));
        second = exact(d) * exact(d) * (exact(1) - exact(of.beta2));
        beta3 = of.beta3 == 0 ? sqrt(exact(of.beta2)) : exact(of.beta3);
        share = exact(d) / exact(of.d0) * q;
        safe_share = of.safeguard_warmup ? exact(d) / exact(of.d0) * exact(d) : share;
    }

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 4> s) const {
        return {product(at.held(share) * exact(g), exact(s[3]) - exact(w)), abs(next_s(g, s[2]))};
    }
    outcomes_of_clock settle(std::array<outcome, 2> sums) const {
        if (sums[1].value == 0) return {exact(d), exact(most), exact(r), exact(0)};
        outcome const weight{beta3.value, at.host * beta3.error};
        outcome const after = sum(product(weight, exact(r)), sums[0]);
        outcome const d_hat = quotient(product(exact(rule.d_coef), after), sums[1]);
        outcome const bound = larger(exact(most), d_hat), begun = d == rule.d0 ? larger(exact(d), d_hat) : exact(d);
        if (std::isinf(rule.growth_rate)) return {bound, bound, after, exact(0)};
        return {smaller(bound, product(begun, exact(rule.growth_rate))), bound, after, exact(0)};
    }
    result<4> operator()(real w, real g, std::array<real, 4> s) const {
        outcome const m = at.fma(at.held(rule.beta1), exact(s[0]), at.held(first) * exact(g));
        outcome const v = at.fma(at.held(rule.beta2), exact(s[1]), at.held(second) * exact(g) * exact(g));
        outcome const below = sqrt(v) + at.held(exact(at.state[0]) * exact(rule.epsilon));
        return moved<4>(w, at.held(q), m / below, at, {m, v, next_s(g, s[2]), exact(s[3])});
    }

private:
    outcome next_s(real g, real s) const { return at.fma(at.held(beta3), exact(s), at.held(safe_share) * exact(g)); }
};
constexpr auto line_of(gs::prodigy) {
    return line<prodigy>(
        gs::prodigy{}, gs::prodigy{.beta1 = 0, .beta2 = 0.5, .beta3 = 0.75, .d0 = 0.01, .safeguard_warmup = true},
        gs::prodigy{.epsilon = 1e-3, .d0 = 1e-3, .d_coef = 0.5, .growth_rate = 1.5, .use_bias_correction = true});
}

/// Ivgi et al. 2023, arXiv:2302.12022, equation (3).
struct dog : model_wise {
    static constexpr bool carries = false;
    static std::vector<std::string> unread(gradstep::dog) { return {"x0"}; }
    static constexpr real least = std::numeric_limits<double>::min(); // a distance of 0
    gradstep::dog rule;
    bool begins;

    dog(gradstep::dog of, now n) : model_wise(n), rule(of), begins(n.t == 1) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 1> s) const {
        outcome const moved = begins ? exact(w) : exact(w) - exact(s[0]);
        return {wide_square(moved, at), wide_square(exact(g), at)};
    }
    outcomes_of_clock settle(std::array<outcome, 2> sums) const {
        outcome const distance = norm(sums[0], at);
        if (!begins)
            return {larger(exact(at.state_before[0]), distance), sum(exact(at.state_before[1]), sums[1]), exact(0),
                    exact(0)};
        switch (rule.initial_is) {
        case gs::dog_start::step_size:
            return {exact(least), sums[1], exact(0), exact(0)};
        case gs::dog_start::distance:
            return {exact(rule.initial), sums[1], exact(0), exact(0)};
        default:
            break;
        }
        return {product(exact(rule.initial), sum(exact(1), distance)), sums[1], exact(0), exact(0)};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const root = sqrt(exact(at.state[1]) + exact(rule.epsilon));
        outcome const by =
            begins && rule.initial_is == gs::dog_start::step_size ? exact(rule.initial) : exact(at.state[0]) / root;
        return moved<1>(w, at.held(exact(at.rate) * by), exact(g), at, {exact(s[0])});
    }
};
constexpr auto line_of(gs::dog) {
    return line<dog>(gs::dog{}, gs::dog{.initial = 0.25, .epsilon = 1e-3, .initial_is = gs::dog_start::distance},
                     gs::dog{.initial = 0.125, .initial_is = gs::dog_start::step_size});
}

} // namespace oracle
