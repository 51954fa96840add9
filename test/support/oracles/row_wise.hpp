#pragma once
/// The rules that look at a whole row: rowwise_adagrad, rowwise_adam, lars, lamb. oracle.hpp says
/// of what parts theirs consist.

#include <span>

#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/lars.hpp>
#include <gradstep/rules/rowwise_adagrad.hpp>
#include <gradstep/rules/rowwise_adam.hpp>

#include <support/oracles/adam.hpp>

namespace oracle {

/// The sum over a row: blocks of 4096 elements, in each 32 columns that are folded in halves, the
/// blocks in double. An addition inside a block rounds `each` times: once in T, as `host` in
/// double.
inline outcome total(std::span<outcome const> parts, real each, now const& at) {
    constexpr std::size_t block = 4096, columns = 32;
    outcome sum{0, 0};
    for (std::size_t first = 0; first < parts.size(); first += block) {
        std::array<outcome, columns> column{};
        auto const here = parts.subspan(first, std::min(block, parts.size() - first));
        for (std::size_t i = 0; i < here.size(); ++i) column[i % columns] = added(column[i % columns], here[i], each);
        for (std::size_t half = columns / 2; half != 0; half /= 2)
            for (std::size_t i = 0; i < half; ++i) column[i] = added(column[i], column[i + half], each);
        sum = added(sum, column[0], at.host);
    }
    return sum;
}

/// Sum or maximum m of a formula: `total` of a rule with a maximum takes m too.
template <class Formula> outcome total_of(Formula const& formula, std::span<outcome const> parts, std::size_t m) {
    if constexpr (requires { formula.total(parts, m); }) return formula.total(parts, m);
    else return formula.total(parts);
}

/// The mean of `width` squares: a division in double, the rounding to T.
inline outcome mean(outcome sum, real width, now const& at) {
    real const x = sum.value / width;
    return {x, sum.error / width + x * (at.host + 1)};
}

/// x^2 in double.
inline outcome wide_square(outcome x, now const& at) {
    return {x.value * x.value, at.host * x.value * x.value + 2 * abs(x.value) * x.error};
}

/// sqrt(sum) in double.
inline outcome norm(outcome sum, now const& at) {
    real const x = std::sqrt(sum.value);
    return {x, x * (relative(sum.error, sum.value) / 2 + at.host)};
}

struct rowwise_adagrad {
    static constexpr bool carries = false;
    real epsilon;
    now at;
    outcome rate{}; // over the root that the row shares

    rowwise_adagrad(gradstep::rowwise_adagrad rule, now n) : epsilon(rule.epsilon), at(n) {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 0>) const { return {square(g)}; }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, 1, at); }
    std::array<outcome, 1> finalize(std::array<outcome, 1> sums, real width, std::array<real, 1> before) {
        outcome const n = exact(before[0]) + mean(sums[0], width, at);
        rate = at.rate_held() / root(n, epsilon, gradstep::epsilon::outside, at);
        return {n};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        if (g == 0) return {exact(w), 0, {}};
        return moved<0>(w, rate, exact(g), at, {});
    }
};
constexpr auto line_of(gs::rowwise_adagrad) {
    return line<rowwise_adagrad>(gs::rowwise_adagrad{}, gs::rowwise_adagrad{.epsilon = 0, .initial_accumulator = 0.1});
}

struct rowwise_adam : moments {
    outcome rate{};

    using moments::moments;

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 1>) const { return {square(g)}; }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, 1, at); }
    std::array<outcome, 1> finalize(std::array<outcome, 1> sums, real width, std::array<real, 1> before) {
        outcome const v = at.mean(beta2, before[0], mean(sums[0], width, at));
        rate = at.held(corrected(at.rate)) / below(v);
        return {v};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = first_moment(s[0], g);
        if (is_exactly(0, m)) return {exact(w), 0, {m}};
        return moved<1>(w, rate, m, at, {m});
    }
};
constexpr auto line_of(gs::rowwise_adam) {
    return line<rowwise_adam>(gs::rowwise_adam{}, gs::rowwise_adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                              gs::rowwise_adam{.epsilon = 1e-3, .bias_correction = false});
}

struct lars {
    static constexpr bool carries = true;
    static bool keeps_rates(gradstep::lars) { return true; } // in m
    real mu, trust, epsilon;
    now at;
    outcome rate{}; // times the trust ratio

    lars(gradstep::lars rule, now n) : mu(rule.mu), trust(rule.trust), epsilon(rule.epsilon), at(n) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 1>) const {
        return {wide_square(exact(w), at), wide_square(exact(g), at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 2> sums, real, std::array<real, 0>) {
        outcome const w = norm(sums[0], at), g = norm(sums[1], at);
        rate = {at.rate, 2 * at.rate}; // the rate; the result, in T
        if (w.value == 0 || g.value == 0) return {};
        real const below = g.value + epsilon, r = at.rate * trust * w.value / below;
        // trust and its product; the sum; the division; the product with the rate; as above; the
        // norms, and epsilon.
        real const own = 1 + at.host + at.host + at.host + at.host + 2;
        rate = {r, r * (own + relative(w.error, w.value) + (g.error + epsilon) / below)};
        return {};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = at.fma(at.held(mu), exact(s[0]), rate * exact(g));
        return moved<1>(w, m, {m});
    }
};
constexpr auto line_of(gs::lars) { return line<lars>(gs::lars{}, gs::lars{.mu = 0, .trust = 0.5, .epsilon = 0.25}); }

struct lamb : moments {
    static bool decays(gradstep::lamb rule) { return rule.decay != 0; }
    real decay;
    outcome rate{}; // times the trust ratio

    lamb(gradstep::lamb rule, now n) : moments(rule, n), decay(rule.decay) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 2> s) const {
        return {wide_square(exact(w), at), wide_square(advanced(w, g, s).u, at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 2> sums, real, std::array<real, 0>) {
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
        return moved<2>(w, rate, to.u, at, {to.m, to.v});
    }

private:
    struct changes {
        outcome m, v, u;
    };
    changes advanced(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        outcome const step = at.held(corrected(1)) * m / below(v);
        return {m, v, at.fma(at.held(decay), exact(w), step)};
    }
};
constexpr auto line_of(gs::lamb) {
    return line<lamb>(gs::lamb{}, gs::lamb{.beta1 = 0, .beta2 = 0.5, .epsilon = 0, .decay = 0.25},
                      gs::lamb{.epsilon = 1e-3, .decay = 0.25, .bias_correction = false});
}

} // namespace oracle
