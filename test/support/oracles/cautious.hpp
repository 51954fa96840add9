#pragma once
/// The cautious forms of adam and lion.

#include <gradstep/rules/cautious_adam.hpp>
#include <gradstep/rules/cautious_lion.hpp>

#include <support/oracles/row_wise.hpp>

namespace oracle {

/// Liang et al. 2024, arXiv:2411.16085, algorithm 1: the elements whose update u has the sign of the
/// gradient step, and their steps are scaled by the share of them.
struct caution {
    gradstep::rescaling rescale;
    outcome factor{};

    static bool agrees(outcome u, real g) { return u.value * g > 0; }
    static bool unsure(outcome u, real g, now const& at) { return g != 0 && at.near(u); }

    // Counts are exact, and unsure where rounding can change the sign of u.
    static std::array<outcome, 1> taken(outcome u, real g, now const& at) {
        return {outcome{agrees(u, g) ? 1.0L : 0.0L, unsure(u, g, at) ? 1 / at.u() : 0}};
    }
    void settle(outcome taken, real width, now const& at) {
        using enum gradstep::rescaling;
        factor = exact(1);
        if (rescale == none) return;
        outcome const least = at.held(1e-3);
        outcome const below = rescale == count
                                  ? outcome{taken.value + 1, taken.error}
                                  : larger(taken, {least.value * width, (least.error + at.host) * least.value * width});
        // The division in double, the result in T.
        real const f = width / below.value;
        factor = {f, f * (relative(below.error, below.value) + at.host + 1)};
    }
    template <std::size_t Slots>
    result<Slots> stepped(real w, real g, outcome u, outcome step, now const& at,
                          std::array<outcome, Slots> const& state) const {
        result<Slots> out{exact(w), 0, state};
        if (agrees(u, g)) out = moved<Slots>(w, factor, step, at, state);
        out.at_threshold = unsure(u, g, at);
        return out;
    }
};

struct cautious_adam : moments {
    caution by;

    cautious_adam(gradstep::cautious_adam rule, now n) : moments(rule, n), by{rule.rescale} {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 2> s) const {
        return caution::taken(first_moment(s[0], g), g, at);
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, 0, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 1> sums, real width, std::array<real, 0>) {
        by.settle(sums[0], width, at);
        return {};
    }
    result<2> operator()(real w, real g, std::array<real, 2> s) const {
        outcome const m = first_moment(s[0], g), v = second_moment(s[1], g);
        return by.stepped<2>(w, g, m, at.held(corrected(at.rate)) * (m / below(v)), at, {m, v});
    }
};
constexpr auto line_of(gs::cautious_adam) {
    using enum gs::rescaling;
    return line<cautious_adam>(
        gs::cautious_adam{}, gs::cautious_adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0, .rescale = count},
        gs::cautious_adam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::inside, .rescale = none},
        gs::cautious_adam{.epsilon = 1e-3, .epsilon_place = gs::epsilon::hat, .rescale = count},
        gs::cautious_adam{.epsilon = 1e-3, .bias_correction = false});
}

struct cautious_lion {
    static constexpr bool carries = true;
    static constexpr bool bounded = true;
    real beta1, beta2;
    now at;
    caution by;

    cautious_lion(gradstep::cautious_lion rule, now n)
        : beta1(rule.beta1), beta2(rule.beta2), at(n), by{rule.rescale} {}

    std::array<outcome, 1> accumulate(real, real g, std::array<real, 1> s) const {
        return caution::taken(direction(g, s), g, at);
    }
    outcome total(std::span<outcome const> parts) const { return oracle::total(parts, 0, at); }
    std::array<outcome, 0> finalize(std::array<outcome, 1> sums, real width, std::array<real, 0>) {
        by.settle(sums[0], width, at);
        return {};
    }
    result<1> operator()(real w, real g, std::array<real, 1> s) const {
        outcome const u = direction(g, s), m = at.mean(beta2, s[0], exact(g));
        return by.stepped<1>(w, g, u, at.rate_held() * exact(u.value < 0 ? -1 : 1), at, {m});
    }

private:
    outcome direction(real g, std::array<real, 1> s) const { return at.mean(beta1, s[0], exact(g)); }
};
constexpr auto line_of(gs::cautious_lion) {
    using enum gs::rescaling;
    return line<cautious_lion>(gs::cautious_lion{}, gs::cautious_lion{.beta1 = 0.5, .beta2 = 0.5, .rescale = count},
                               gs::cautious_lion{.rescale = none});
}

} // namespace oracle
