#pragma once
/// The row-wise rules that scale a step by numbers of the whole tensor: novograd, fromage,
/// stable_adamw. oracle.hpp says of what parts the oracle of a row-wise rule consists.

#include <gradstep/rules/fromage.hpp>
#include <gradstep/rules/novograd.hpp>
#include <gradstep/rules/stable_adamw.hpp>

#include <support/oracles/row_wise.hpp>

namespace oracle {

/// Bernstein et al. 2020, arXiv:2002.03432, algorithm 1.
struct fromage {
    static constexpr bool carries = true;
    static bool decays(gradstep::fromage) { return true; }
    real min_norm;
    now at;
    outcome rate{}; // times the ratio of the norms

    fromage(gradstep::fromage rule, now n) : min_norm(rule.min_norm), at(n) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 0>) const {
        return {wide_square(exact(w), at), wide_square(exact(g), at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 2> sums, real, std::array<real, 0>) {
        outcome const least = at.held(min_norm);
        outcome const w = larger(norm(sums[0], at), least), g = larger(norm(sums[1], at), least);
        rate = {at.rate, 2 * at.rate}; // the rate; the result, in T
        if (w.value == 0 || g.value == 0) return {};
        real const r = at.rate * w.value / g.value;
        // The division, the product with the rate; as above; the norms.
        rate = {r, r * (2 * at.host + 2 + relative(w.error, w.value) + relative(g.error, g.value))};
        return {};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        // On the host: for a rate above 1 both terms under the root are divided by its square.
        outcome const over = at.rate > 1 ? exact(1) / exact(at.rate) : exact(1);
        outcome const least = at.rate > 1 ? over : exact(at.rate);
        outcome const shrink = at.held(over / sqrt(exact(1) + least * least));
        outcome const to = shrink * at.fnma(rate, exact(g), exact(w));
        return {to, to.value - w, {}};
    }
};
constexpr auto line_of(gs::fromage) { return line<fromage>(gs::fromage{}, gs::fromage{.min_norm = 3}); }

/// Ginsburg et al. 2019, arXiv:1905.11286, algorithm 1.
struct novograd {
    static constexpr bool carries = true;
    static bool decays(gradstep::novograd rule) { return rule.weight_decay != 0; }
    real beta1, beta2, epsilon, weight_decay;
    now at;
    outcome scale{}; // 1 / (sqrt(v) + epsilon)

    novograd(gradstep::novograd rule, now n)
        : beta1(rule.beta1), beta2(rule.beta2), epsilon(rule.epsilon), weight_decay(rule.weight_decay), at(n) {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 1>) const { return {wide_square(exact(g), at)}; }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 1> finalize(std::array<outcome, 1> sums, real, std::array<real, 1> before) {
        outcome const squares{sums[0].value, sums[0].value + sums[0].error}; // in T
        outcome const v = before[0] == 0 ? squares : at.mean(beta2, before[0], squares);
        scale = exact(1) / root(v, epsilon, gradstep::epsilon::outside, at);
        return {v};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        // Without gradient in the whole tensor the scale can be infinite.
        outcome const normalized = g == 0 ? exact(0) : scale * exact(g);
        outcome const m = at.fma(at.held(beta1), exact(s[0]), at.fma(at.held(weight_decay), exact(w), normalized));
        return moved<1>(w, at.rate_held(), m, at, {m});
    }
};
constexpr auto line_of(gs::novograd) {
    return line<novograd>(gs::novograd{}, gs::novograd{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                          gs::novograd{.epsilon = 0.25, .weight_decay = 0.25});
}

/// Wortsman et al. 2023, arXiv:2304.13013, algorithm 2, with the corrections as factors of the
/// moments.
struct stable_adamw : moments {
    static bool decays(gradstep::stable_adamw rule) { return rule.weight_decay != 0; }
    real weight_decay;
    outcome rate{}; // over the clipped RMS

    stable_adamw(gradstep::stable_adamw rule, now n) : moments(rule, n), weight_decay(rule.weight_decay) {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 2> s) const {
        if (g == 0) return {exact(0)};
        outcome const root = at.held(root_scale()) * sqrt(second_moment(s[1], g));
        return {wide_square(exact(g) / larger(root, at.held(epsilon)), at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 1> sums, real width, std::array<real, 0>) {
        // The mean and its root in double.
        real const x = sums[0].value / width, rms = std::sqrt(x);
        outcome const root{rms, rms * (relative(sums[0].error, sums[0].value) / 2 + at.host / 2 + at.host)};
        outcome const by = larger(root, exact(1));
        // The rate in T; the division in double; the result in T.
        real const r = at.rate / by.value;
        rate = {r, r * (2 + at.host + relative(by.error, by.value))};
        return {};
    }
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        outcome const step = at.held(corrected(1)) * m / below(v);
        return moved<2>(w, rate, at.fma(at.held(weight_decay), exact(w), step), at, {m, v});
    }
};
constexpr auto line_of(gs::stable_adamw) {
    return line<stable_adamw>(gs::stable_adamw{}, gs::stable_adamw{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                              gs::stable_adamw{.beta2 = 0.999, .epsilon = 0.25, .weight_decay = 0.25},
                              gs::stable_adamw{.epsilon = 0.25, .bias_correction = false});
}

} // namespace oracle
