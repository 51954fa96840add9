#pragma once
/// The rules that look at the whole model. oracle.hpp says of what parts theirs consist.

#include <gradstep/rules/dadapt_adam.hpp>
#include <gradstep/rules/dadapt_sgd.hpp>
#include <gradstep/rules/dog.hpp>
#include <gradstep/rules/dowg.hpp>
#include <gradstep/rules/momo.hpp>
#include <gradstep/rules/momo_adam.hpp>
#include <gradstep/rules/polyak_sgd.hpp>
#include <gradstep/rules/prodigy.hpp>

#include <support/oracles/row_wise.hpp>

namespace oracle {

/// The state of a clock after a step, of which the library may miss each number by its error.
using outcomes_of_clock = std::array<outcome, std::tuple_size_v<gs::clock_state>>;

/// What these oracles share: a sum over a tensor, and the arithmetic of the host, whose roundings
/// are `host` each.
struct model_wise {
    now at;

    explicit model_wise(now n) : at(n) {}
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }

protected:
    outcome rounded(outcome x) const { return {x.value, x.error + at.host * abs(x.value)}; }
    /// What the host computes from exact numbers, with as many roundings of double.
    outcome of_host(outcome x) const { return {x.value, at.host * x.error}; }
    outcome product(outcome a, outcome b) const { return rounded(unrounded_product(a, b)); }
    outcome sum(outcome a, outcome b) const { return added(a, b, at.host); }
    outcome quotient(outcome a, outcome b) const {
        real const x = a.value / b.value;
        return {x, a.error / abs(b.value) + abs(x) * (relative(b.error, b.value) + at.host)};
    }
    static outcome smaller(outcome a, outcome b) { return {std::min(a.value, b.value), std::max(a.error, b.error)}; }
};

/// Mishchenko & Defazio 2023, arXiv:2306.06101, algorithm 4, with the weights of the authors'
/// package.
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
        outcome const after = sum(product(of_host(beta3), exact(r)), sums[0]);
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

/// Khaled et al. 2023, arXiv:2305.16284, algorithm 1.
struct dowg : model_wise {
    static constexpr bool carries = false;
    static std::vector<std::string> unread(gradstep::dowg) { return {"x0"}; }
    gradstep::dowg rule;

    dowg(gradstep::dowg of, now n) : model_wise(n), rule(of) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 1> s) const {
        return {wide_square(exact(w) - exact(s[0]), at), wide_square(exact(g), at)};
    }
    outcomes_of_clock settle(std::array<outcome, 2> sums) const {
        bool const begins = at.t == 1;
        outcome const distance = larger(exact(begins ? rule.initial : at.state_before[0]), sums[0]);
        outcome const before = exact(begins ? 0 : at.state_before[1]);
        return {distance, sum(before, product(distance, sums[1])), exact(0), exact(0)};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const below = sqrt(exact(at.state[1])) + exact(rule.epsilon);
        return moved<1>(w, at.held(exact(at.rate) * (exact(at.state[0]) / below)), exact(g), at, {exact(s[0])});
    }
};
constexpr auto line_of(gs::dowg) { return line<dowg>(gs::dowg{}, gs::dowg{.initial = 0.25, .epsilon = 1e-8}); }

/// Defazio & Mishchenko 2023, arXiv:2301.07733, algorithm 5.
struct dadapt_adam : model_wise {
    static constexpr bool carries = true;
    static bool keeps_rates(gradstep::dadapt_adam) { return true; } // in m
    static std::vector<std::string> unread(gradstep::dadapt_adam) { return {"s"}; }
    gradstep::dadapt_adam rule;
    outcome q, root, share;
    real d, r;

    dadapt_adam(gradstep::dadapt_adam of, now n) : model_wise(n), rule(of) {
        d = n.t == 1 ? of.d0 : n.state_before[0];
        r = n.t == 1 ? 0 : n.state_before[1];
        outcome const c = of.use_bias_correction ? sqrt(bias(of.beta2, n.t)) / bias(of.beta1, n.t) : exact(1);
        q = exact(d) * exact(n.rate) * c;
        root = sqrt(exact(of.beta2));
        share = (exact(1) - root) * q;
    }

    std::array<outcome, 2> accumulate(real, real g, std::array<real, 3> s) const {
        return {product(at.held(q) * exact(g), exact(s[2]) / below(exact(s[1]))), abs(next_s(g, s[2]))};
    }
    outcomes_of_clock settle(std::array<outcome, 2> sums) const {
        if (sums[1].value == 0) return {exact(d), exact(r), exact(0), exact(0)};
        outcome const rest = of_host(exact(1) - root);
        outcome const after = sum(product(of_host(root), exact(r)), product(rest, sums[0]));
        outcome const d_hat = quotient(after, product(rest, sums[1]));
        outcome const most =
            std::isinf(rule.growth_rate) ? d_hat : smaller(d_hat, product(exact(d), exact(rule.growth_rate)));
        return {larger(exact(d), most), after, exact(0), exact(0)};
    }
    result<3> operator()(real w, real g, std::array<real, 3> s) const {
        outcome const first = (exact(1) - exact(rule.beta1)) * q;
        outcome const m = at.fma(at.held(rule.beta1), exact(s[0]), at.held(first) * exact(g));
        outcome const v = at.mean_square(rule.beta2, s[1], exact(g));
        return moved<3>(w, m / below(v), {m, v, next_s(g, s[2])});
    }

private:
    outcome below(outcome v) const { return sqrt(v) + at.held(rule.epsilon); }
    outcome next_s(real g, real s) const { return at.fma(at.held(root), exact(s), at.held(share) * exact(g)); }
};
constexpr auto line_of(gs::dadapt_adam) {
    return line<dadapt_adam>(gs::dadapt_adam{}, gs::dadapt_adam{.beta1 = 0, .beta2 = 0.5, .d0 = 0.01},
                             gs::dadapt_adam{.epsilon = 1e-3, .growth_rate = 1.25, .use_bias_correction = true});
}

/// Defazio & Mishchenko 2023, arXiv:2301.07733, algorithm 4.
struct dadapt_sgd : model_wise {
    static constexpr bool carries = true;
    static bool keeps_rates(gradstep::dadapt_sgd) { return true; } // in s
    gradstep::dadapt_sgd rule;
    real d, r, first_norm;

    dadapt_sgd(gradstep::dadapt_sgd of, now n) : model_wise(n), rule(of) {
        d = n.t == 1 ? of.d0 : n.state_before[0];
        r = n.t == 1 ? 0 : n.state_before[1];
        first_norm = n.t == 1 ? 0 : n.state_before[2];
    }

    std::array<outcome, 2> accumulate(real, real g, std::array<real, 2> s) const {
        outcome const share = first_norm == 0 ? exact(1) : at.held(q(first_norm));
        return {product(share * exact(g), exact(s[0])), wide_square(at.fma(share, exact(g), exact(s[0])), at)};
    }
    outcomes_of_clock settle(std::array<outcome, 2> sums) const {
        if (sums[1].value == 0) return {exact(d), exact(r), exact(first_norm), exact(0)};
        if (first_norm == 0) return {exact(d), exact(r), norm(sums[1], at), exact(0)};
        outcome const after = sum(exact(r), sums[0]);
        outcome const d_hat = quotient({2 * after.value, 2 * after.error}, norm(sums[1], at));
        outcome const most =
            std::isinf(rule.growth_rate) ? d_hat : smaller(d_hat, product(exact(d), exact(rule.growth_rate)));
        return {larger(exact(d), most), after, exact(first_norm), exact(0)};
    }
    result<2> operator()(real w, real g, std::array<real, 2> x) const {
        outcome const share = at.state[2] == 0 ? exact(0) : at.held(q(at.state[2]));
        outcome const s = at.fma(share, exact(g), exact(x[0]));
        outcome const to = at.fma(at.one_minus(rule.mu), (exact(x[1]) - s) - exact(w), exact(w));
        return {to, to.value - w, {s, exact(x[1])}};
    }

private:
    outcome q(real by) const { return exact(d) * exact(at.rate) / exact(by); }
};
constexpr auto line_of(gs::dadapt_sgd) {
    return line<dadapt_sgd>(gs::dadapt_sgd{}, gs::dadapt_sgd{.mu = 0.75, .d0 = 0.01, .growth_rate = 1.25});
}

/// Loizou et al. 2021, arXiv:2002.10542, equation (3).
struct polyak_sgd : model_wise {
    static constexpr bool carries = false;
    gradstep::polyak_sgd rule;
    outcome step{};

    polyak_sgd(gradstep::polyak_sgd of, now n) : model_wise(n), rule(of) {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 0>) const { return {wide_square(exact(g), at)}; }
    outcomes_of_clock settle(std::array<outcome, 1> sums) {
        outcome gap = sum(exact(at.loss), exact(-rule.f_min));
        if (rule.variant == gs::polyak_variant::sps_plus) gap = larger(gap, exact(0));
        outcome const below = sum(sums[0], exact(rule.epsilon));
        step = below.value == 0 ? exact(0) : smaller(quotient(gap, below), exact(rule.max_learning_rate));
        return {};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        outcome const rate = product(exact(at.rate), step);
        return moved<0>(w, {rate.value, rate.error + abs(rate.value)}, exact(g), at, {});
    }
};
constexpr auto line_of(gs::polyak_sgd) {
    return line<polyak_sgd>(gs::polyak_sgd{}, gs::polyak_sgd{.f_min = 1.2, .max_learning_rate = 1e6, .epsilon = 0.25},
                            gs::polyak_sgd{.f_min = 1.2, .variant = gs::polyak_variant::sps_plus});
}

/// Schaipp et al. 2023, arXiv:2305.07583: the model of the loss.
struct momo_terms : model_wise {
    real beta, lower_bound, decay;
    bool adapts;
    outcome correction; // of the host
    outcome step{};
    gs::clock_state before;

    template <class Rule>
    momo_terms(Rule const& of, now n, real b, outcome c)
        : model_wise(n), beta(b), lower_bound(of.lower_bound), decay(of.decay), adapts(of.adapt_lower_bound),
          correction(of_host(c)), before(n.state_before) {
        if (n.t == 1) before = {0, 0, of.lower_bound};
    }
    outcomes_of_clock settle(std::array<outcome, 3> sums) {
        auto const [along, squared, gradient] = sums;
        outcome const shrink = sum(exact(1), product(exact(at.rate), exact(decay)));
        outcome const rest = of_host(exact(1) - exact(beta));
        outcome const average = sum(product(exact(beta), exact(before[0])), product(rest, exact(at.loss)));
        outcome const gamma = sum(product(exact(beta), exact(before[1])), product(rest, gradient));
        outcome least = exact(before[2]);
        if (adapts) {
            outcome const cap = sum(product(shrink, sum(average, -gamma)), along);
            if (cap.value < shrink.value * correction.value * least.value)
                least = larger(quotient(cap, product(product(exact(2), shrink), correction)), exact(lower_bound));
        }
        outcome const above = sum(average, -product(correction, least));
        outcome const h = sum(product(shrink, sum(above, -gamma)), along);
        outcome const most = quotient(exact(at.rate), correction);
        step = squared.value == 0 ? exact(0) : smaller(most, quotient(larger(h, exact(0)), squared));
        if (adapts) {
            outcome const half = product({step.value / 2, step.error / 2}, squared);
            least = larger(quotient(sum(sum(sum(average, along), -gamma), -half), correction), exact(lower_bound));
        }
        return {average, gamma, least, exact(0)};
    }

protected:
    template <std::size_t Slots> result<Slots> along(real w, outcome d, std::array<outcome, Slots> const& state) const {
        outcome const rate{step.value, step.error + abs(step.value)}; // in T
        outcome const shrink = at.held(exact(1) / (exact(1) + exact(at.rate) * exact(decay)));
        outcome const to = at.fnma(rate, d, exact(w)) * (decay == 0 ? exact(1) : shrink);
        return {to, to.value - w, state};
    }
    outcome inner(outcome a, outcome b) const { return product(a, b); }
};

struct momo : momo_terms {
    static constexpr bool carries = true;
    static bool decays(gradstep::momo rule) { return rule.decay != 0; }

    momo(gradstep::momo rule, now n)
        : momo_terms(rule, n, n.t == 1 && !rule.bias_correction ? 0 : rule.beta,
                     rule.bias_correction ? bias(rule.beta, n.t) : exact(1)) {}

    std::array<outcome, 3> accumulate(real w, real g, std::array<real, 1> s) const {
        outcome const m = at.mean(beta, s[0], exact(g));
        return {inner(m, exact(w)), wide_square(m, at), inner(exact(g), exact(w))};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const m = at.mean(beta, s[0], exact(g));
        return along<1>(w, m, {m});
    }
};
constexpr auto line_of(gs::momo) {
    return line<momo>(gs::momo{}, gs::momo{.beta = 0.5, .lower_bound = -2, .bias_correction = true},
                      gs::momo{.lower_bound = 0.5, .decay = 0.25, .adapt_lower_bound = true});
}

struct momo_adam : momo_terms {
    static constexpr bool carries = true;
    static bool decays(gradstep::momo_adam rule) { return rule.decay != 0; }
    real beta2, epsilon;

    momo_adam(gradstep::momo_adam rule, now n)
        : momo_terms(rule, n, rule.beta1, bias(rule.beta1, n.t)), beta2(rule.beta2), epsilon(rule.epsilon) {}

    std::array<outcome, 3> accumulate(real w, real g, std::array<real, 2> s) const {
        outcome const m = at.mean(beta, s[0], exact(g));
        return {inner(m, exact(w)), inner(m, m / below(at.mean_square(beta2, s[1], exact(g)))),
                inner(exact(g), exact(w))};
    }
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = at.mean(beta, s[0], exact(g)), v = at.mean_square(beta2, s[1], exact(g));
        return along<2>(w, m / below(v), {m, v});
    }

private:
    outcome below(outcome v) const {
        return at.fma(at.held(exact(1) / sqrt(bias(beta2, at.t))), sqrt(v), at.held(epsilon));
    }
};
constexpr auto line_of(gs::momo_adam) {
    return line<momo_adam>(
        gs::momo_adam{}, gs::momo_adam{.beta1 = 0.5, .beta2 = 0.5, .lower_bound = -2},
        gs::momo_adam{.epsilon = 1e-3, .lower_bound = 0.5, .decay = 0.25, .adapt_lower_bound = true});
}

} // namespace oracle
