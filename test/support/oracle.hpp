#pragma once
/// The rules as their papers write them, in long double, one element at a time, and how far the library may be from
/// them. Nothing here uses the library's packs, kernels or prepared coefficients.
///
/// The error of a rule in arithmetic T is counted in roundings. One rounding of x is off by at most u |x|, with
/// u = epsilon / 2 of T, and u |x| <= ulp(x). An oracle gives with each value its `error`: the sum over the roundings
/// on the way to it, each the magnitude of what is rounded times its amplification through the rest of the formula, in
/// units of u. Three things are common to all rules:
///   - An operation rounds once. The product of a multiply-add rounds `product` times: 0 fused, 1 without an FMA.
///   - The library holds the scalars of a step in T. A hyper-parameter is given here in double, so that holding it in T
///     is one rounding of it. What is computed on the host, in double, before that adds `host` for each operation.
///   - A sum a + b carries the absolute errors of a and b: where they cancel, `error` is large against the result, and
///     that is the condition of the subtraction, not a loose bound.
/// A row-wise rule has an oracle of three parts: `observe` says what an element adds to each sum, `settle` what the row
/// becomes and, for the steps that follow, what its elements share; the step of an element is the oracle's call, as that
/// of every other rule. `total` adds the parts in the order that docs/rules.md states, and counts its roundings.
///
/// Left out are products of errors (below error * u each) and the roundings of long double (2^-11 of double's each, on
/// as many operations): less than 1 % together, by which `allowed` in oracle.cpp widens. Nothing under- or overflows:
/// the tests keep their numbers away from both ends.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <gradstep/core/config.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/ftrl.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/lars.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/rowwise_adagrad.hpp>
#include <gradstep/rules/rowwise_adam.hpp>
#include <gradstep/rules/sgd.hpp>

namespace oracle {

using real = long double;
using std::abs, std::sqrt, std::pow;

/// A step, and the arithmetic it is done in.
struct now {
    std::int64_t t;
    real rate;
    real product; // roundings of the product in a multiply-add
    real host;    // a rounding of double in units of T's
};
template <class T> now step_in(std::int64_t t, double rate) {
    real const host = std::numeric_limits<double>::epsilon() / std::numeric_limits<T>::epsilon();
    return {t, rate, GRADSTEP_FMA ? 0 : 1, host};
}

/// What an element becomes, and by how much the library may miss it, in units of u.
struct outcome {
    real value, error;
};
template <std::size_t Slots> struct result {
    outcome weight;
    real update; // with the weight before the step, the scale in whose ulp the weight's error is told
    std::array<outcome, Slots> state;
    bool at_threshold = false; // within the error of a change of branch: not compared, and rare
};

/// w - d, rounded once.
inline outcome difference(real w, real d, real d_error) { return {w - d, abs(w - d) + d_error}; }

/// error / x, which is 0 where both are.
inline real relative(real error, real x) { return error == 0 ? 0 : error / abs(x); }

/// n + g^2 and its root, as adagrad and ftrl keep it. The root halves relative errors and rounds once.
struct square_sum {
    outcome n;
    real root, root_error;

    square_sum(real before, real g, now const& at) : n{before + g * g, before + g * g + at.product * g * g} {
        root = sqrt(n.value);
        root_error = root * (1 + relative(n.error, n.value) / 2);
    }
};

struct sgd {
    static constexpr bool carries = false; // a weight without gradient stands still, whatever the state is
    now at;

    sgd(gradstep::sgd, now n) : at(n) {}

    result<0> operator()(real w, real g, std::array<real, 0>) const {
        real const d = at.rate * g;
        real const d_error = (1 + at.product) * abs(d); // the rate, the product
        return {difference(w, d, d_error), d, {}};
    }
};

struct momentum {
    static constexpr bool carries = true;
    real mu;
    now at;

    momentum(gradstep::momentum rule, now n) : mu(rule.mu), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        real const m = mu * s[0] + g, d = at.rate * m;
        real const m_error = abs(m) + (1 + at.product) * abs(mu * s[0]); // the sum; mu, the product
        real const d_error = (1 + at.product) * abs(d) + at.rate * m_error;
        return {difference(w, d, d_error), d, {{{m, m_error}}}};
    }
};

struct nesterov {
    static constexpr bool carries = true;
    real mu;
    now at;

    nesterov(gradstep::nesterov rule, now n) : mu(rule.mu), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        real const m = mu * s[0] + g, ahead = g + mu * m, d = at.rate * ahead;
        real const m_error = abs(m) + (1 + at.product) * abs(mu * s[0]);
        real const ahead_error = abs(ahead) + (1 + at.product) * abs(mu * m) + mu * m_error;
        real const d_error = (1 + at.product) * abs(d) + at.rate * ahead_error;
        return {difference(w, d, d_error), d, {{{m, m_error}}}};
    }
};

struct adagrad {
    static constexpr bool carries = false;
    real epsilon;
    now at;

    adagrad(gradstep::adagrad rule, now n) : epsilon(rule.epsilon), at(n) {}

    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        square_sum const sum(s[0], g, at);
        real const below = sum.root + epsilon, d = g == 0 ? 0 : at.rate * g / below;
        real const below_error = below + sum.root_error + epsilon; // the sum; its terms
        // The rate, its product, the division; the divisor.
        real const d_error = abs(d) * (2 + at.product + relative(below_error, below));
        return {difference(w, d, d_error), d, {{sum.n}}};
    }
};

struct adam {
    static constexpr bool carries = true;
    real beta1, beta2, epsilon, m_bias, v_bias, m_bias_error, v_bias_error;
    now at;

    // Any rule with adam's moments and their bias corrections.
    template <class Rule> adam(Rule rule, now n) : beta1(rule.beta1), beta2(rule.beta2), epsilon(rule.epsilon), at(n) {
        auto const t = static_cast<real>(at.t);
        m_bias = 1 - pow(beta1, t);
        v_bias = 1 - pow(beta2, t);
        // Relative: the difference rounds; pow is good to one ulp (two roundings at most), which the subtraction from 1
        // amplifies by beta^t / (1 - beta^t).
        m_bias_error = at.host * (1 + 2 * pow(beta1, t) / m_bias);
        v_bias_error = at.host * (1 + 2 * pow(beta2, t) / v_bias);
    }

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], {g * g, g * g});
        outcome const d = scaled(m, below(v), at.rate);
        return {difference(w, d.value, d.error), d.value, {{m, v}}};
    }

protected:
    outcome first_moment(real before, real g) const {
        real const m = beta1 * before + (1 - beta1) * g;
        // The sum; beta1 and its product; 1 - beta1 and its product.
        return {m, abs(m) + (1 + at.product) * abs(beta1 * before) + 2 * abs((1 - beta1) * g)};
    }
    // Of g^2, or of a mean of squares.
    outcome second_moment(real before, outcome square) const {
        real const v = beta2 * before + (1 - beta2) * square.value;
        // The sum; beta2 and its product; 1 - beta2 and its product; the square.
        return {v, v + (1 + at.product) * beta2 * before + (1 - beta2) * (2 * square.value + square.error)};
    }
    // sqrt(v / v_bias) + epsilon.
    outcome below(outcome v) const {
        real const root = sqrt(v.value / v_bias), sum = root + epsilon;
        // The root of v, halving its error; the factor 1 / sqrt(v_bias), two operations on the host; their product.
        real const root_error =
            root * (1 + relative(v.error, v.value) / 2 + 1 + 2 * at.host + v_bias_error / 2 + at.product);
        return {sum, sum + root_error + epsilon};
    }
    // factor * (m / m_bias) / below, with two divisions and products in any order.
    outcome scaled(outcome m, outcome divisor, real factor) const {
        if (m.value == 0 && m.error == 0) return {0, 0};
        real const d = factor * m.value / m_bias / divisor.value;
        // The division and the divisor; the factor / m_bias, one operation on the host, and its product; m.
        return {d, m.error * (factor / m_bias / divisor.value) +
                       abs(d) * (1 + relative(divisor.error, divisor.value) + 1 + at.host + m_bias_error + at.product)};
    }
};

struct ftrl {
    static constexpr bool carries = false;
    real l1, l2, beta;
    now at;

    ftrl(gradstep::ftrl rule, now n) : l1(rule.l1), l2(rule.l2), beta(rule.beta), at(n) {}

    // z is a function of the weight while that is not 0, so that the previous rate is not needed: spec and header.
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        square_sum const sum(s[1], g, at);
        real const scaled = (beta + sum.root) / at.rate, q = scaled + l2, sign = w < 0 ? -1 : 1;
        // beta, the sum with the root; the factor 1 / rate, one operation on the host, and its product; l2 and its sum.
        real const scaled_error =
            ((beta + sum.root) + beta + sum.root_error) / at.rate + scaled * (1 + at.host + at.product);
        real const q_relative = relative(q + l2 + scaled_error, q);
        result<2> out{{0, 0}, g / q, {{{0, 0}, sum.n}}};

        real pull, pull_error, shrunk, shrunk_error; // the new z before the weight's part, and |z| - l1
        if (w != 0) {
            real const h = g * sign, p = abs(w) * q, over = h - p;
            real const over_error = abs(over) + p * (q_relative + at.product);
            if (h < p) {
                real const d = g / q;
                out.weight = difference(w, d, abs(d) * (1 + q_relative));
            }
            real const e = over - l1, e_error = abs(e) + over_error + l1;
            pull = sign * e, pull_error = e_error;
            shrunk = e - l1, shrunk_error = abs(shrunk) + e_error + l1;
            out.at_threshold = near(over, over_error);
            if (h >= p && shrunk > 0) out.weight = divided(-sign * shrunk, shrunk_error, q, q_relative);
        } else {
            pull = s[0] + g, pull_error = abs(pull);
            shrunk = abs(pull) - l1, shrunk_error = abs(shrunk) + pull_error + l1;
            if (shrunk > 0) out.weight = divided(pull < 0 ? shrunk : -shrunk, shrunk_error, q, q_relative);
        }
        out.at_threshold = out.at_threshold || near(shrunk, shrunk_error);

        real const after = out.weight.value;
        if (after == 0) {
            out.state[0] = {pull, pull_error};
        } else {
            real const z = -after * q - (after < 0 ? -l1 : l1);
            out.state[0] = {z, abs(z) + l1 + abs(after * q) * (q_relative + at.product) + q * out.weight.error};
        }
        return out;
    }

private:
    static outcome divided(real a, real a_error, real q, real q_relative) {
        return {a / q, abs(a / q) * (1 + q_relative) + a_error / q};
    }
    // Whether rounding can take x to the other side of 0.
    bool near(real x, real error) const {
        real const u = std::numeric_limits<double>::epsilon() / at.host / 2;
        return abs(x) < u * error;
    }
};

/// a + b, rounded `each` times by the type that holds it; exact where one of them is an exact 0.
inline outcome added(outcome a, outcome b, real each) {
    if (a.value == 0 && a.error == 0) return b;
    if (b.value == 0 && b.error == 0) return a;
    real const sum = a.value + b.value;
    return {sum, a.error + b.error + each * abs(sum)};
}

/// The sum over a row: blocks of 4096 elements, in each 32 columns in T that are folded in halves, the blocks in double.
inline outcome total(std::span<outcome const> parts, now const& at) {
    constexpr std::size_t block = 4096, columns = 32;
    outcome sum{0, 0};
    for (std::size_t first = 0; first < parts.size(); first += block) {
        std::array<outcome, columns> column{};
        auto const here = parts.subspan(first, std::min(block, parts.size() - first));
        for (std::size_t i = 0; i < here.size(); ++i) column[i % columns] = added(column[i % columns], here[i], 1);
        for (std::size_t half = columns / 2; half != 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) column[i] = added(column[i], column[i + half], 1);
        sum = added(sum, column[0], at.host);
    }
    return sum;
}

/// x^2, rounded once.
inline outcome square(outcome x) { return {x.value * x.value, x.value * x.value + 2 * abs(x.value) * x.error}; }
inline outcome square(real x) { return square(outcome{x, 0}); }

/// The mean of `width` squares: a division in double, the rounding to T.
inline outcome mean(outcome sum, real width, now const& at) {
    real const x = sum.value / width;
    return {x, sum.error / width + x * (at.host + 1)};
}

/// sqrt(sum) in double.
inline outcome norm(outcome sum, now const& at) {
    real const x = sqrt(sum.value);
    return {x, x * (relative(sum.error, sum.value) / 2 + at.host)};
}

struct rowwise_adagrad {
    static constexpr bool carries = false;
    real epsilon;
    now at;
    outcome below{};

    rowwise_adagrad(gradstep::rowwise_adagrad rule, now n) : epsilon(rule.epsilon), at(n) {}

    std::array<outcome, 1> observe(real, real g, std::array<real, 0>) const { return {square(g)}; }
    std::array<outcome, 1> settle(std::array<outcome, 1> sums, real width, std::array<real, 1> before) {
        outcome const n = added({before[0], 0}, mean(sums[0], width, at), 1);
        real const root = sqrt(n.value);
        below.value = root + epsilon;
        below.error = below.value + root * (1 + relative(n.error, n.value) / 2) + epsilon;
        return {n};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        real const d = g == 0 ? 0 : at.rate * g / below.value;
        // The rate, the division, the product; the divisor.
        real const d_error = abs(d) * (2 + at.product + relative(below.error, below.value));
        return {difference(w, d, d_error), d, {}};
    }
};

struct rowwise_adam : adam {
    outcome divisor{};

    using adam::adam;

    std::array<outcome, 1> observe(real, real g, std::array<real, 1>) const { return {square(g)}; }
    std::array<outcome, 1> settle(std::array<outcome, 1> sums, real width, std::array<real, 1> before) {
        outcome const v = second_moment(before[0], mean(sums[0], width, at));
        divisor = below(v);
        return {v};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = first_moment(s[0], g), d = scaled(m, divisor, at.rate);
        return {difference(w, d.value, d.error), d.value, {{m}}};
    }
};

struct lars {
    static constexpr bool carries = true;
    static constexpr bool keeps_rates = true; // in m: a weight moves on at a rate of 0; left out by most rules
    real mu, trust, epsilon;
    now at;
    outcome rate{}; // times the trust ratio

    lars(gradstep::lars rule, now n) : mu(rule.mu), trust(rule.trust), epsilon(rule.epsilon), at(n) {}

    std::array<outcome, 2> observe(real w, real g, std::array<real, 1>) const { return {square(w), square(g)}; }
    std::array<outcome, 0> settle(std::array<outcome, 2> sums, real, std::array<real, 0>) {
        outcome const w = norm(sums[0], at), g = norm(sums[1], at);
        rate = {at.rate, 2 * at.rate}; // the rate; the result, in T
        if (w.value == 0 || g.value == 0) return {};
        real const below = g.value + epsilon, r = at.rate * trust * w.value / below;
        // trust and its product; the sum; the division; the product with the rate; as above; the norms, and epsilon.
        real const own = 1 + at.host + at.host + at.host + at.host + 2;
        rate = {r, r * (own + relative(w.error, w.value) + (g.error + epsilon) / below)};
        return {};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        real const d = rate.value * g, m = mu * s[0] + d;
        // The sum; mu and its product; the product with g.
        real const m_error = abs(m) + (1 + at.product) * abs(mu * s[0]) + abs(d) + rate.error * abs(g);
        return {difference(w, m, m_error), m, {{{m, m_error}}}};
    }
};

struct lamb : adam {
    // Whether the rule moves a weight without gradient, from the initial state on; left out by most rules.
    static bool decays(gradstep::lamb rule) { return rule.decay != 0; }
    real decay;
    outcome rate{}; // times the trust ratio

    lamb(gradstep::lamb rule, now n) : adam(rule, n), decay(rule.decay) {}

    std::array<outcome, 2> observe(real w, real g, std::array<real, 2> s) const {
        return {square(w), square(advanced(w, g, s).u)};
    }
    std::array<outcome, 0> settle(std::array<outcome, 2> sums, real, std::array<real, 0>) {
        outcome const w = norm(sums[0], at), u = norm(sums[1], at);
        rate = {at.rate, 2 * at.rate}; // the rate; the result, in T
        if (w.value == 0 || u.value == 0) return {};
        real const r = at.rate * w.value / u.value;
        // The division, the product with the rate; as above; the norms.
        rate = {r, r * (2 * at.host + 2 + relative(w.error, w.value) + relative(u.error, u.value))};
        return {};
    }
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        auto const to = advanced(w, g, s);
        real const d = rate.value * to.u.value;
        real const d_error = at.product * abs(d) + rate.error * abs(to.u.value) + rate.value * to.u.error;
        return {difference(w, d, d_error), d, {{to.m, to.v}}};
    }

private:
    struct moments {
        outcome m, v, u;
    };
    moments advanced(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], {g * g, g * g});
        outcome const step = scaled(m, below(v), 1), pull{decay * w, (1 + at.product) * abs(decay * w)};
        // m / m_bias is rounded before the division.
        return {m, v, added({step.value, step.error + (1 - at.product) * abs(step.value)}, pull, 1)};
    }
};

} // namespace oracle
