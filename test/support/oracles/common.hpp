#pragma once
/// What the oracles of all rules are written in: numbers that count their roundings. oracle.hpp
/// explains the counting.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gradstep/base/compiler.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/epsilon.hpp>

namespace oracle {

namespace gs = gradstep;

/// The line of a rule in the registry (support/registry.hpp): its oracle, and the settings that the
/// tests run with.
template <class Oracle, class Rule, std::size_t N> struct entry {
    using oracle = Oracle;
    using rule = Rule;
    std::array<Rule, N> settings; // the defaults first, then what reaches other branches
};
template <class Oracle, class Rule, class... More>
constexpr entry<Oracle, Rule, 1 + sizeof...(More)> line(Rule defaults, More... more) {
    return {{defaults, more...}};
}

using real = long double;
using std::abs, std::sqrt, std::pow;

/// What an element becomes, and by how much the library may miss it, in units of u.
struct outcome {
    real value, error;
};

/// A number that the library has as it is: a weight, a gradient, a slot.
inline outcome exact(real x) { return {x, 0}; }
inline bool is_exactly(real x, outcome a) { return a.value == x && a.error == 0; }
/// Exactly 1 or -1: a product with it is not rounded.
inline bool is_unit(outcome a) { return abs(a.value) == 1 && a.error == 0; }

/// error / x, which is 0 where both are.
inline real relative(real error, real x) { return error == 0 ? 0 : error / abs(x); }

/// a + b, rounded `each` times by the type that holds it; exact where one of them is an exact 0.
inline outcome added(outcome a, outcome b, real each) {
    if (is_exactly(0, a)) return b;
    if (is_exactly(0, b)) return a;
    real const sum = a.value + b.value;
    return {sum, a.error + b.error + each * abs(sum)};
}
/// a * b before it is rounded.
inline outcome unrounded_product(outcome a, outcome b) {
    return {a.value * b.value, abs(a.value) * b.error + abs(b.value) * a.error};
}

// Operations round once, unless nothing is left to round.
inline outcome operator-(outcome a) { return {-a.value, a.error}; }
inline outcome operator+(outcome a, outcome b) { return added(a, b, 1); }
inline outcome operator-(outcome a, outcome b) { return added(a, -b, 1); }
inline outcome operator*(outcome a, outcome b) {
    outcome const x = unrounded_product(a, b);
    return {x.value, x.error + (is_unit(a) || is_unit(b) ? 0 : abs(x.value))};
}
/// 0 / b is 0, for 0 / 0 too: nothing in this library divides by 0.
inline outcome operator/(outcome a, outcome b) {
    if (is_exactly(0, a)) return a;
    if (is_exactly(1, b)) return a;
    real const x = a.value / b.value;
    return {x, a.error / abs(b.value) + abs(x) * (relative(b.error, b.value) + 1)};
}
/// The root halves relative errors.
inline outcome sqrt(outcome a) {
    real const x = std::sqrt(a.value);
    return {x, x * (relative(a.error, a.value) / 2 + 1)};
}
/// A cube root takes a third of a relative error; math::cbrt adds 5/6 ulp and a little, two
/// roundings at most.
inline outcome cbrt(outcome a) {
    real const x = std::cbrt(a.value);
    return {x, abs(x) * (relative(a.error, a.value) / 3 + 2)};
}
inline outcome abs(outcome a) { return {std::abs(a.value), a.error}; }
/// Exact, and never further off than one of the two: not even where rounding takes the other.
inline outcome larger(outcome a, outcome b) { return {std::max(a.value, b.value), std::max(a.error, b.error)}; }
/// x^2, rounded once.
inline outcome square(outcome x) { return {x.value * x.value, x.value * x.value + 2 * abs(x.value) * x.error}; }
inline outcome square(real x) { return square(exact(x)); }
/// Good to one ulp, which is two roundings at most. An absolute error of x is a relative one of
/// e^x, and the reverse.
inline outcome exp(outcome x) {
    real const y = std::exp(x.value);
    return {y, y * (x.error + 2)};
}
inline outcome log(outcome x) {
    real const y = std::log(x.value);
    return {y, relative(x.error, x.value) + 2 * abs(y)};
}
/// x^p with p >= 0: good to one ulp. 0^0 is 1.
inline outcome pow(outcome x, outcome p) {
    real const y = std::pow(x.value, p.value);
    if (x.value == 0) return exact(y);
    return {y, y * (p.value * relative(x.error, x.value) + abs(std::log(x.value)) * p.error + 2)};
}

/// 1 - beta^t. The power is good to one ulp, and the subtraction from 1 amplifies it by beta^t / (1
/// - beta^t).
inline outcome bias(real beta, std::int64_t t) { return exact(1) - pow(exact(beta), exact(static_cast<real>(t))); }
/// The same for a rule that can leave the correction out.
template <class Rule> outcome bias(Rule const& rule, real beta, std::int64_t t) {
    if constexpr (requires { rule.bias_correction; })
        if (!rule.bias_correction) return exact(1);
    return bias(beta, t);
}

/// A step, and the arithmetic it is done in.
struct now {
    std::int64_t t;
    real rate;
    real product;                      // roundings of the product in a multiply-add
    real host;                         // a rounding of double in units of T's
    gs::clock_state state = {};        // of the clock after the step
    gs::clock_state state_before = {}; // before it, for model-wise rules
    real loss = 0;                     // that the step is given

    real u() const { return std::numeric_limits<double>::epsilon() / host / 2; }

    /// A number that the host has in double, with its roundings there, is rounded once more to T.
    outcome held(outcome x) const { return {x.value, abs(x.value) + host * x.error}; }
    outcome held(real x) const { return held(exact(x)); }
    outcome rate_held() const { return held(rate); }

    /// a * b + c
    outcome fma(outcome a, outcome b, outcome c) const {
        if (is_exactly(0, c)) return a * b;
        outcome const x = unrounded_product(a, b);
        return outcome{x.value, x.error + (is_unit(a) || is_unit(b) ? 0 : product * abs(x.value))} + c;
    }
    /// c - a * b
    outcome fnma(outcome a, outcome b, outcome c) const { return fma(-a, b, c); }
    /// A moving mean: beta * before + (1 - beta) * x.
    outcome mean(real beta, real before, outcome x) const {
        return fma(held(beta), exact(before), one_minus(beta) * x);
    }
    /// The moving mean of x^2, with the products from left to right.
    outcome mean_square(real beta, real before, outcome x) const {
        return fma(held(beta), exact(before), one_minus(beta) * square(x));
    }
    /// 1 - x, of the host: exact for x = 0, and for x from 0.5 on.
    outcome one_minus(real x) const {
        if (x == 0) return exact(1);
        return held({1 - x, x < 0.5L ? 1 - x : 0});
    }

    /// Whether rounding can take x to the other side of 0.
    bool near(outcome x) const { return abs(x.value) < u() * x.error; }
};
template <class T>
now step_in(std::int64_t t, double rate, gs::clock_state const& state = {}, gs::clock_state const& before = {}) {
    real const host = std::numeric_limits<double>::epsilon() / std::numeric_limits<T>::epsilon();
    return {t, rate, GRADSTEP_FMA ? 0 : 1, host, state, before};
}

template <std::size_t Slots> struct result {
    outcome weight;
    real update; // with the weight before the step, the scale in whose ulp the weight's error is told
    std::array<outcome, Slots> state;
    bool at_threshold = false; // within the error of a change of branch: not compared, and rare
};

/// w - rate * d.
template <std::size_t Slots>
result<Slots> moved(real w, outcome rate, outcome d, now const& at, std::array<outcome, Slots> const& state) {
    return {at.fnma(rate, d, exact(w)), rate.value * d.value, state};
}
/// w - d.
template <std::size_t Slots> result<Slots> moved(real w, outcome d, std::array<outcome, Slots> const& state) {
    return {exact(w) - d, d.value, state};
}

/// sqrt(x) and epsilon at its place, where nothing is corrected.
inline outcome root(outcome x, real epsilon, gradstep::epsilon place, now const& at) {
    if (place == gradstep::epsilon::inside) return sqrt(x + at.held(epsilon));
    return sqrt(x) + at.held(epsilon);
}

// What the tests need to know of a rule: an oracle says it as a constant, as a function of the
// rule, or not at all.

/// Whether a weight without gradient moves, once the rule has a state.
template <class Oracle, class Rule> bool carries(Rule const& rule) {
    if constexpr (requires { Oracle::carries(rule); }) return Oracle::carries(rule);
    else return Oracle::carries;
}
/// Whether the rule moves a weight without gradient, from the initial state on; left out by most
/// rules.
template <class Oracle, class Rule> bool decays(Rule const& rule) {
    if constexpr (requires { Oracle::decays(rule); }) return Oracle::decays(rule);
    else return false;
}
/// Whether earlier rates are in the state, so that a weight moves on at a rate of 0; left out by
/// most rules.
template <class Oracle, class Rule> bool keeps_rates(Rule const& rule) {
    if constexpr (requires { Oracle::keeps_rates(rule); }) return Oracle::keeps_rates(rule);
    else return false;
}
/// The slots that no weight depends on, so that what is not finite in them stays there; left out by
/// most rules.
template <class Oracle, class Rule> std::vector<std::string> unread(Rule const& rule) {
    if constexpr (requires { Oracle::unread(rule); }) return Oracle::unread(rule);
    else return {};
}
/// The slots that some steps write without a look at what they were, or bring back to a range; left
/// out by most rules.
template <class Oracle> std::vector<std::string> overwritten() {
    if constexpr (requires { Oracle::overwritten(); }) return Oracle::overwritten();
    else return {};
}
/// The slots that are differences, so that they can be 0 after any step; left out by most rules.
template <class Oracle> std::vector<std::string> differences() {
    if constexpr (requires { Oracle::differences(); }) return Oracle::differences();
    else return {};
}
/// The slot that is computed from the weight while that is not 0, not from what it was; left out by
/// most rules.
template <class Oracle> std::string inferred() {
    if constexpr (requires { Oracle::inferred; }) return Oracle::inferred;
    else return "";
}
/// Whether a step is finite for every gradient, as in a rule that uses only the sign. Most rules
/// leave it out.
template <class Oracle> constexpr bool bounded() {
    return requires { requires Oracle::bounded; };
}

} // namespace oracle
