#pragma once
/// The row-wise rules that take a row to 0, limit its gradient or keep an average of it:
/// group_ftrl, group_adagrad, cowclip_adagrad, rowwise_rmsprop. oracle.hpp says of what parts the
/// oracle of a row-wise rule consists.

#include <gradstep/rules/cowclip_adagrad.hpp>
#include <gradstep/rules/group_adagrad.hpp>
#include <gradstep/rules/group_ftrl.hpp>
#include <gradstep/rules/rowwise_rmsprop.hpp>

#include <support/oracles/row_wise.hpp>

namespace oracle {

/// A result of double, so that each of its own roundings there counts `host`, as a result in T.
inline outcome in_element(outcome x) { return {x.value, x.error + abs(x.value)}; }
/// a + b, a - b, a * b and a / b in double.
inline outcome wide_sum(outcome a, outcome b, now const& at) { return added(a, b, at.host); }
inline outcome wide_product(outcome a, outcome b, now const& at) {
    outcome const x = unrounded_product(a, b);
    return {x.value, x.error + at.host * abs(x.value)};
}
inline outcome wide_quotient(outcome a, outcome b, now const& at) {
    if (is_exactly(0, a)) return a;
    real const x = a.value / b.value;
    return {x, a.error / abs(b.value) + abs(x) * (relative(b.error, b.value) + at.host)};
}
/// max(0, x): exactly 0 if rounding cannot take x to the other side.
inline outcome positive_part(outcome x, now const& at) {
    return x.value < 0 && !at.near(x) ? exact(0) : larger(x, exact(0));
}
/// max(0, 1 - threshold / norm) as (norm - threshold) / norm in double. It is continuous: no
/// threshold of the oracle.
inline outcome share_left(outcome norm, outcome threshold, now const& at) {
    if (is_exactly(0, threshold)) return exact(1);
    outcome const above = positive_part(wide_sum(norm, -threshold, at), at);
    if (norm.value == 0) return exact(0);
    return in_element(wide_quotient(above, norm, at));
}

/// Yue et al. 2021, arXiv:2107.14432: z <- z + g - (q - q_before) * w, of which y is what is left
/// of z + q_before * w.
struct group_ftrl {
    static constexpr bool carries = true;
    static bool decays(gradstep::group_ftrl rule) { return rule.l1 != 0 || rule.l21 != 0; }
    static std::vector<std::string> differences() { return {"y"}; }
    real l1, l2, l21, beta;
    now at;
    outcome share{};

    group_ftrl(gradstep::group_ftrl rule, now n) : l1(rule.l1), l2(rule.l2), l21(rule.l21), beta(rule.beta), at(n) {}

    std::array<outcome, 1> accumulate(real w, real g, std::array<real, 2> s) const {
        return {wide_square(advanced(w, g, s).soft, at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 1> sums, real width, std::array<real, 0>) {
        real const root = std::sqrt(width);
        share = share_left(norm(sums[0], at), wide_product(at.held(l21), {root, at.host * root}, at), at);
        return {};
    }
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        auto const to = advanced(w, g, s);
        outcome const left = share * to.soft;
        if (at.rate == 0) return {exact(w), 0, {w == 0 ? to.z : exact(s[0]), to.n}};
        outcome const held = to.z - left;
        outcome const weight = exact(w) - (exact(s[0]) + exact(g) - held) / to.q;
        return {is_exactly(0, left) ? exact(0) : weight, weight.value - w, {held, to.n}};
    }

private:
    struct changes {
        outcome n, q, z, soft;
    };
    changes advanced(real w, real g, std::array<real, 2> s) const {
        outcome const n = at.fma(exact(g), exact(g), exact(s[1]));
        // 1 / rate is an operation of the host. At a rate of 0 only z of a weight of 0 counts.
        outcome const inverse = at.rate == 0 ? exact(1) : at.held(exact(1) / exact(at.rate));
        outcome const q = at.fma(at.held(beta) + sqrt(n), inverse, at.held(l2));
        outcome const z = at.fnma(q, exact(w), exact(s[0]) + exact(g));
        outcome const beyond = positive_part(abs(z) - at.held(l1), at);
        return {n, q, z, z.value < 0 ? -beyond : beyond};
    }
};
constexpr auto line_of(gs::group_ftrl) {
    return line<group_ftrl>(gs::group_ftrl{}, gs::group_ftrl{.l1 = 0.25, .l2 = 0.5, .l21 = 0.125},
                            gs::group_ftrl{.l21 = 64, .beta = 0, .initial_accumulator = 0.25});
}

/// Monolith, group_adagrad_optimizer.cc. The norm comes from three sums, whose errors meet a small
/// difference.
struct group_adagrad {
    static bool carries(gradstep::group_adagrad rule) { return rule.l21 != 0; }
    static bool decays(gradstep::group_adagrad rule) { return rule.l21 != 0; }
    real l21, beta;
    now at;
    outcome rate{}, share{};

    group_adagrad(gradstep::group_adagrad rule, now n) : l21(rule.l21), beta(rule.beta), at(n) {}

    std::array<outcome, 4> accumulate(real w, real g, std::array<real, 0>) const {
        outcome const squares = wide_square(exact(g), at);
        return {squares, wide_square(exact(w), at), wide_product(exact(w), exact(g), at), squares};
    }
    outcome total(std::span<outcome const> parts, std::size_t sum) const {
        if (sum != 0) return oracle::total(parts, at.host, at);
        outcome most{0, 0};
        for (outcome const& part : parts) most = larger(most, part);
        return most;
    }
    std::array<outcome, 1> finalize(std::array<outcome, 4> sums, real, std::array<real, 1> before) {
        outcome const n = exact(before[0]) + in_element(sums[0]);
        rate = at.rate_held() / root(n, beta, gradstep::epsilon::outside, at);
        outcome const twice{-2 * sums[2].value, 2 * sums[2].error};
        outcome const inner = wide_sum(wide_product(rate, sums[3], at), twice, at);
        outcome squares = wide_sum(wide_product(rate, inner, at), sums[1], at);
        // Where the difference is all error, so is its root.
        real const u = at.u();
        real const highest = std::sqrt(std::max(real(0), squares.value + u * squares.error));
        real const lowest = std::sqrt(std::max(real(0), squares.value - u * squares.error));
        real const size = std::sqrt(std::max(real(0), squares.value));
        outcome const norm{size, std::max(highest - size, size - lowest) / u + at.host * size};
        share = l21 == 0 || at.rate == 0 ? exact(1) : share_left(norm, wide_product(rate, at.held(l21), at), at);
        return {n};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        outcome const moved = g == 0 ? exact(w) : at.fnma(rate, exact(g), exact(w)), to = share * moved;
        return {to, to.value - w, {}};
    }
};
constexpr auto line_of(gs::group_adagrad) {
    return line<group_adagrad>(gs::group_adagrad{}, gs::group_adagrad{.l21 = 0.25, .beta = 1, .initial_accumulator = 0},
                               gs::group_adagrad{.l21 = 16});
}

/// Zheng et al. 2022, arXiv:2204.06240, algorithm 1, with the count and the step of FBGEMM's
/// rowwise_adagrad_with_counter.
struct cowclip_adagrad {
    static constexpr bool carries = false;
    real clip, lower_bound, count_decay, epsilon;
    now at;
    outcome rate{};

    cowclip_adagrad(gradstep::cowclip_adagrad rule, now n)
        : clip(rule.clip_ratio), lower_bound(rule.lower_bound), count_decay(rule.count_decay), epsilon(rule.epsilon),
          at(n) {}

    std::array<outcome, 2> accumulate(real w, real g, std::array<real, 0>) const {
        return {wide_square(exact(w), at), wide_square(exact(g), at)};
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 2> finalize(std::array<outcome, 2> sums, real width, std::array<real, 2> before) {
        outcome const w = norm(sums[0], at), g = norm(sums[1], at);
        outcome const c = at.fma(at.held(count_decay), exact(before[0]), exact(g.value == 0 ? 0 : 1));
        outcome const n = exact(before[1]) + mean(sums[1], width, at);
        outcome const plain = at.rate_held() / root(n, epsilon, gradstep::epsilon::outside, at);
        rate = plain;
        if (g.value != 0) {
            outcome const of_norm = larger(wide_product(at.held(clip), w, at), at.held(lower_bound));
            outcome const part = wide_quotient(wide_product(c, of_norm, at), g, at);
            outcome const least = -larger(-part, exact(-1)); // the smaller one is continuous
            rate = in_element(wide_product(plain, least, at));
        }
        return {c, n};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        if (g == 0) return {exact(w), 0, {}};
        return moved<0>(w, rate, exact(g), at, {});
    }
};
constexpr auto line_of(gs::cowclip_adagrad) {
    return line<cowclip_adagrad>(
        gs::cowclip_adagrad{},
        gs::cowclip_adagrad{.clip_ratio = 0.125, .count_decay = 0.75, .initial_accumulator = 0.25},
        gs::cowclip_adagrad{.clip_ratio = 0, .lower_bound = 0.5, .count_decay = 1, .epsilon = 0});
}

/// FBGEMM's rowwise_rmsprop_ar without its decay: v is an average over the steps with a gradient.
struct rowwise_rmsprop {
    static constexpr bool carries = false;
    real beta, epsilon;
    now at;
    outcome rate{};

    rowwise_rmsprop(gradstep::rowwise_rmsprop rule, now n) : beta(rule.beta), epsilon(rule.epsilon), at(n) {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 0>) const { return {wide_square(exact(g), at)}; }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, at.host, at); }
    std::array<outcome, 1> finalize(std::array<outcome, 1> sums, real width, std::array<real, 1> before) {
        outcome const v = sums[0].value == 0 ? exact(before[0]) : at.mean(beta, before[0], mean(sums[0], width, at));
        rate = at.rate_held() / root(v, epsilon, gradstep::epsilon::outside, at);
        return {v};
    }
    result<0> operator()(real w, real g, std::array<real, 0>) const {
        if (g == 0) return {exact(w), 0, {}};
        return moved<0>(w, rate, exact(g), at, {});
    }
};
constexpr auto line_of(gs::rowwise_rmsprop) {
    return line<rowwise_rmsprop>(gs::rowwise_rmsprop{}, gs::rowwise_rmsprop{.beta = 0, .epsilon = 0.25});
}

} // namespace oracle
