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
/// Left out are products of errors (below error * u each) and the roundings of long double (2^-11 of double's each, on
/// as many operations): less than 1 % together, by which `allowed` in oracle.cpp widens. Nothing under- or overflows:
/// the tests keep their numbers away from both ends.

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <gradstep/core/config.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/ftrl.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/nesterov.hpp>
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

    adam(gradstep::adam rule, now n) : beta1(rule.beta1), beta2(rule.beta2), epsilon(rule.epsilon), at(n) {
        auto const t = static_cast<real>(at.t);
        m_bias = 1 - pow(beta1, t);
        v_bias = 1 - pow(beta2, t);
        // Relative: the difference rounds; pow is good to one ulp (two roundings at most), which the subtraction from 1
        // amplifies by beta^t / (1 - beta^t).
        m_bias_error = at.host * (1 + 2 * pow(beta1, t) / m_bias);
        v_bias_error = at.host * (1 + 2 * pow(beta2, t) / v_bias);
    }

    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        real const m = beta1 * s[0] + (1 - beta1) * g, v = beta2 * s[1] + (1 - beta2) * g * g;
        real const m_hat = m / m_bias, root = sqrt(v / v_bias), below = root + epsilon;
        real const d = m == 0 ? 0 : at.rate * m_hat / below;

        // The sum; beta1 and its product; 1 - beta1 and its product. In v: beta2, product; 1 - beta2, two products.
        real const m_error = abs(m) + (1 + at.product) * abs(beta1 * s[0]) + 2 * abs((1 - beta1) * g);
        real const v_error = v + (1 + at.product) * beta2 * s[1] + 3 * (1 - beta2) * g * g;
        // The root of v, halving its error; the factor 1 / sqrt(v_bias), two operations on the host; their product.
        real const root_error = root * (1 + relative(v_error, v) / 2 + 1 + 2 * at.host + v_bias_error / 2 + at.product);
        real const below_error = below + root_error + epsilon;
        // The division and the divisor; the factor rate / m_bias, one operation on the host, and its product; m.
        real const d_error = m_error * (m == 0 ? at.rate / m_bias / below : abs(d / m)) +
                             abs(d) * (1 + relative(below_error, below) + 1 + at.host + m_bias_error + at.product);
        return {difference(w, d, d == 0 && m_error == 0 ? 0 : d_error), d, {{{m, m_error}, {v, v_error}}}};
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

} // namespace oracle
