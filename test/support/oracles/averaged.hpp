#pragma once
/// A rule and, in one slot more, the moving mean of the weights that it makes.

#include <support/oracles/common.hpp>

namespace oracle {

template <class Inner> struct averaged {
    template <class Rule> static bool carries(Rule const& rule) { return oracle::carries<Inner>(rule.rule); }
    template <class Rule> static bool decays(Rule const& rule) { return oracle::decays<Inner>(rule.rule); }
    template <class Rule> static bool keeps_rates(Rule const& rule) { return oracle::keeps_rates<Inner>(rule.rule); }

    template <class Rule> static std::string unread(Rule const&) { return "average"; }

    Inner inner;
    real decay;
    now at;

    template <class Rule> averaged(Rule const& rule, now n) : inner(rule.rule, n), decay(rule.average.decay), at(n) {}

    template <std::size_t Slots> result<Slots> operator()(real w, real g, std::array<real, Slots> s) const {
        std::array<real, Slots - 1> own;
        std::copy_n(s.begin(), own.size(), own.begin());
        auto const step = inner(w, g, own);
        result<Slots> out{step.weight, step.update, {}, step.at_threshold};
        std::copy(step.state.begin(), step.state.end(), out.state.begin());
        outcome const held = at.held(decay); // and what is left to 1 of it, not of the unrounded one
        out.state.back() = at.fma(held, exact(s.back()), (exact(1) - held) * step.weight);
        return out;
    }
};

} // namespace oracle
