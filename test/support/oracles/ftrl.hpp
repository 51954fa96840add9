#pragma once
/// ftrl, and the form of it that is right for a constant rate.

#include <gradstep/rules/constant_rate_ftrl.hpp>
#include <gradstep/rules/ftrl.hpp>

#include <support/oracles/common.hpp>

namespace oracle {

/// n + g^2 and its root, or what stands for it: n^p, where p = -lr_power is rounded to the
/// arithmetic. The library takes the power from the standard library, which is good to one ulp.
struct square_sum {
    outcome n, root;

    square_sum(real before, real g, real lr_power, now const& at)
        : n(at.fma(exact(g), exact(g), exact(before))), root(of(n, lr_power, at)) {}

    static outcome of(outcome n, real lr_power, now const& at) {
        return lr_power == -0.5L ? sqrt(n) : pow(n, at.held(-lr_power));
    }
};

/// n^0 is 1, whatever n is.
inline std::vector<std::string> unread_of(real lr_power) {
    if (lr_power == 0) return {"n"};
    return {};
}

struct ftrl {
    static constexpr bool carries = false;
    static constexpr char const* inferred = "z";
    static std::vector<std::string> unread(gradstep::ftrl rule) { return unread_of(rule.lr_power); }
    real l1, l2, beta, lr_power;
    now at;

    ftrl(gradstep::ftrl rule, now n) : l1(rule.l1), l2(rule.l2), beta(rule.beta), lr_power(rule.lr_power), at(n) {}

    // z is a function of the weight while that is not 0, so that the previous rate is not needed:
    // spec and header.
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        square_sum const sum(s[1], g, lr_power, at);
        // 1 / rate is an operation of the host.
        outcome const inverse_rate = at.held(exact(1) / exact(at.rate)), below = at.held(beta) + sum.root;
        outcome const q = at.fma(below, inverse_rate, at.held(l2)), threshold = at.held(l1);
        real const sign = w < 0 ? -1 : 1;
        result<2> out{{0, 0}, g / q.value, {exact(0), sum.n}};

        outcome pull, shrunk; // the new z before the weight's part, and |z| - l1
        if (w != 0) {
            outcome const over = at.fnma(exact(abs(w)), q, exact(g * sign)), e = over - threshold;
            out.at_threshold = at.near(over);
            if (over.value < 0) out.weight = exact(w) - exact(g) / q;
            pull = exact(sign) * e;
            shrunk = e - threshold;
            if (over.value >= 0 && shrunk.value > 0) out.weight = exact(-sign) * (shrunk / q);
        } else {
            pull = exact(s[0]) + exact(g);
            shrunk = abs(pull) - threshold;
            if (shrunk.value > 0) out.weight = exact(pull.value < 0 ? 1 : -1) * (shrunk / q);
        }
        out.at_threshold = out.at_threshold || at.near(shrunk);

        real const after = out.weight.value;
        outcome const l1_of_side = after < 0 ? -threshold : threshold;
        out.state[0] = after == 0 ? pull : -at.fma(out.weight, q, l1_of_side);
        return out;
    }
};
constexpr auto line_of(gs::ftrl) {
    return line<ftrl>(
        gs::ftrl{}, gs::ftrl{.l1 = 0.5, .l2 = 0.01}, gs::ftrl{.l1 = 0.1, .beta = 0, .initial_accumulator = 0.1},
        gs::ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = -0.75}, gs::ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = 0});
}

/// z is summed with the rate of the step alone, and the weight is a function of z.
struct constant_rate_ftrl {
    // With the rate, for one; and a weight that z says nothing of is lost at the first step.
    static constexpr bool carries = true;
    static bool decays(gradstep::constant_rate_ftrl) { return true; }
    static std::vector<std::string> unread(gradstep::constant_rate_ftrl rule) { return unread_of(rule.lr_power); }
    real l1, l2, beta, lr_power, shrinkage;
    now at;

    constant_rate_ftrl(gradstep::constant_rate_ftrl rule, now n)
        : l1(rule.l1), l2(rule.l2), beta(rule.beta), lr_power(rule.lr_power), shrinkage(rule.l2_shrinkage), at(n) {}

    result<2> operator()(real w, real g, std::array<real, 2> slots) const {
        square_sum const sum(slots[1], g, lr_power, at);
        outcome const before = square_sum::of(exact(slots[1]), lr_power, at),
                      inverse_rate = at.held(exact(1) / exact(at.rate));
        outcome const s = (sum.root - before) * inverse_rate;
        outcome const pulled = at.fma(at.held(2 * shrinkage), exact(w), exact(g));
        // The order of the two sums is not the formula's: the larger one in between is counted.
        outcome const one = at.fnma(s, exact(w), exact(slots[0]) + pulled),
                      other = exact(slots[0]) + at.fnma(s, exact(w), pulled);
        outcome const z = {one.value, std::max(one.error, other.error)};

        outcome const threshold = at.held(l1), left = abs(z) - threshold;
        outcome const q = at.fma(at.held(beta) + sum.root, inverse_rate, at.held(l2));
        outcome const d = left / q;
        real const sign = z.value < 0 ? 1 : -1;
        return {left.value <= 0 ? exact(0) : exact(sign) * d, g / q.value, {z, sum.n}, l1 != 0 && at.near(left)};
    }
};
constexpr auto line_of(gs::constant_rate_ftrl) {
    return line<constant_rate_ftrl>(
        gs::constant_rate_ftrl{}, gs::constant_rate_ftrl{.l1 = 0.5, .l2 = 0.01},
        gs::constant_rate_ftrl{.l1 = 0.1, .beta = 0, .initial_accumulator = 0.1, .l2_shrinkage = 0.25},
        gs::constant_rate_ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = -0.75},
        gs::constant_rate_ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = 0, .l2_shrinkage = 0.01});
}

} // namespace oracle
