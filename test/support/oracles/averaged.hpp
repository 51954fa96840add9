#pragma once
/// A rule and, in further slots, an average of the weights that it makes.

#include <gradstep/averaging/averaged.hpp>
#include <gradstep/averaging/ema.hpp>
#include <gradstep/averaging/lookahead.hpp>
#include <gradstep/averaging/polyak.hpp>
#include <gradstep/averaging/towards_initial.hpp>
#include <gradstep/averaging/window.hpp>
#include <gradstep/base/type_list.hpp>

#include <support/oracles/adam.hpp>
#include <support/oracles/momentum.hpp>
#include <support/window_counters.hpp>

namespace oracle {

struct ema {
    static constexpr std::size_t slots = 1;
    static std::vector<std::string> unread() { return {"average"}; }

    now at;
    outcome kept; // of the average before; what is left to 1 of it, not of the unrounded one, is the weight's

    ema(gradstep::ema const& average, now n) : at(n), kept(at.held(share(average, n.t - average.start))) {}

    std::array<outcome, 1> operator()(outcome w, std::array<real, 1> s) const {
        return {at.fma(kept, exact(s[0]), (exact(1) - kept) * w)};
    }

private:
    static outcome share(gradstep::ema const& average, std::int64_t k) {
        if (k < 1 || (average.debias && k == 1)) return exact(0);
        if (!average.debias) return exact(average.decay);
        return exact(average.decay) * (bias(average.decay, k - 1) / bias(average.decay, k));
    }
};

struct polyak {
    static constexpr std::size_t slots = 1;
    static std::vector<std::string> unread() { return {"average"}; }

    now at;
    std::int64_t k;

    polyak(gradstep::polyak const& average, now n) : at(n), k(n.t - average.start) {}

    std::array<outcome, 1> operator()(outcome w, std::array<real, 1> s) const {
        if (k <= 1) return {w};
        outcome const before = exact(s[0]), share = at.held(exact(1) / exact(static_cast<real>(k)));
        return {at.fma(share, w - before, before)};
    }
};

/// The three sums; the window closes by counters, as its authors keep them. For fewer than 16384
/// steps: nothing is folded.
struct window {
    static constexpr std::size_t slots = 3;
    static std::vector<std::string> unread() { return {"sum_1", "sum_2", "sum_3"}; }
    static std::vector<std::string> overwritten() { return {"sum_3"}; }

    bool closes = false;

    window(gradstep::window const& average, now n) {
        window_counters counters;
        while (counters.num_updates < n.t) closes = counters.count(average);
    }

    std::array<outcome, 3> operator()(outcome w, std::array<real, 3> s) const {
        outcome const sum = exact(s[0]) + w;
        if (closes) return {exact(0), exact(0), sum + exact(s[1])};
        return {sum, exact(s[1]), exact(s[2])};
    }
};

/// The slow weights, to which the weight returns.
struct lookahead {
    static constexpr std::size_t slots = 1;
    static constexpr bool pulls = true;
    /// Most steps read nothing.
    static std::vector<std::string> unread(gs::lookahead const& average) {
        if (average.period == 1) return {};
        return {"slow"};
    }

    now at;
    real alpha;
    bool ends;

    lookahead(gradstep::lookahead const& average, now n)
        : at(n), alpha(average.alpha), ends(n.t % average.period == 0) {}

    std::array<outcome, 1> operator()(outcome w, std::array<real, 1> s) const {
        if (!ends) return {exact(s[0])};
        return {at.fma(at.held(alpha), w - exact(s[0]), exact(s[0]))};
    }
};

/// The initial weights, towards which every step decays: w' - w0 = (1 - lr * rate) * (w - w0).
struct towards_initial {
    static constexpr std::size_t slots = 1;
    static constexpr bool pulls = true, ends = true;
    static std::vector<std::string> unread(gs::towards_initial const&) { return {}; }

    now at;
    outcome share; // one operation of the host: the product

    towards_initial(gradstep::towards_initial const& average, now n)
        : at(n), share(at.held({n.rate * real(average.rate), n.rate * real(average.rate)})) {}

    std::array<outcome, 1> operator()(outcome, std::array<real, 1> s) const { return {exact(s[0])}; }
    outcome pulled(outcome w, std::array<real, 1> s) const { return at.fnma(share, w - exact(s[0]), w); }
};

/// Whether an average changes the weight, which then carries on a weight without gradient. Left out
/// by most.
template <class Average> constexpr bool pulls() {
    return requires { requires Average::pulls; };
}

template <class Inner, class Average> struct averaged {
    template <class Rule> static bool carries(Rule const& rule) {
        return pulls<Average>() || oracle::carries<Inner>(rule.rule);
    }
    template <class Rule> static bool decays(Rule const& rule) { return oracle::decays<Inner>(rule.rule); }
    template <class Rule> static bool keeps_rates(Rule const& rule) {
        return pulls<Average>() || oracle::keeps_rates<Inner>(rule.rule);
    }
    template <class Rule> static std::vector<std::string> unread(Rule const& rule) {
        if constexpr (pulls<Average>()) return Average::unread(rule.average);
        else return Average::unread();
    }
    static std::vector<std::string> overwritten() { return oracle::overwritten<Average>(); }

    Inner inner;
    Average average;

    template <class Rule> averaged(Rule const& rule, now n) : inner(rule.rule, n), average(rule.average, n) {}

    template <std::size_t Slots> result<Slots> operator()(real w, real g, std::array<real, Slots> s) const {
        constexpr std::size_t own = Slots - Average::slots;
        std::array<real, own> of_rule;
        std::copy_n(s.begin(), own, of_rule.begin());
        std::array<real, Average::slots> of_average;
        std::copy_n(s.begin() + own, Average::slots, of_average.begin());
        auto const step = inner(w, g, of_rule);
        auto const after = average(step.weight, of_average);
        result<Slots> out{step.weight, step.update, {}, step.at_threshold};
        if constexpr (requires { average.pulled(step.weight, of_average); })
            out.weight = average.pulled(step.weight, of_average);
        else if constexpr (pulls<Average>())
            if (average.ends) out.weight = after[0];
        std::copy(after.begin(), after.end(), std::copy(step.state.begin(), step.state.end(), out.state.begin()));
        return out;
    }
    /// As optax writes a pull: as a change of the weight, of which it takes 1 - alpha of the
    /// distance.
    template <std::size_t Slots>
    outcome weight_elsewhere(real w, real g, std::array<real, Slots> s) const
        requires(std::is_same_v<Average, lookahead>) {
        std::array<real, Slots - 1> of_rule;
        std::copy_n(s.begin(), Slots - 1, of_rule.begin());
        outcome const step = inner(w, g, of_rule).weight, update{step.value - w, step.error};
        if (!average.ends) return exact(w) + update;
        return exact(w) + (update - average.at.one_minus(average.alpha) * (step - exact(s[Slots - 1])));
    }
};

/// Each average of a rule that the tests run over.
using averaged_rules =
    gs::type_list<gs::averaged<gs::adam, gs::ema>, gs::averaged<gs::sgd, gs::polyak>, gs::averaged<gs::sgd, gs::window>,
                  gs::averaged<gs::adam, gs::lookahead>, gs::averaged<gs::adam, gs::towards_initial>>;
constexpr auto line_of(gs::averaged<gs::adam, gs::ema>) {
    return line<averaged<adam, ema>>(
        gs::averaged{gs::adam{}, gs::ema{}}, gs::averaged{gs::adam{.beta1 = 0}, gs::ema{.decay = 0.5}},
        gs::averaged{gs::adam{}, gs::ema{.decay = 0.5, .debias = true}}, gs::averaged{gs::adam{}, gs::ema{.start = 3}},
        gs::averaged{gs::adam{}, gs::ema{.debias = true, .start = 2}});
}
constexpr auto line_of(gs::averaged<gs::sgd, gs::polyak>) {
    return line<averaged<sgd, polyak>>(gs::averaged{gs::sgd{}, gs::polyak{}},
                                       gs::averaged{gs::sgd{}, gs::polyak{.start = 2}});
}
constexpr auto line_of(gs::averaged<gs::sgd, gs::window>) {
    return line<averaged<sgd, window>>(gs::averaged{gs::sgd{}, gs::window{.rate = 0.15}},
                                       gs::averaged{gs::sgd{}, gs::window{.rate = 1, .min = 1, .max = 1}},
                                       gs::averaged{gs::sgd{}, gs::window{.rate = 0.5, .min = 2, .max = 4}},
                                       gs::averaged{gs::sgd{}, gs::window{.rate = 0.15, .min = 3, .max = 50}});
}

// Periods in which the steps 1 and 10, at which tests put a NaN into a slot, either both end a
// period or neither does.
constexpr auto line_of(gs::averaged<gs::adam, gs::lookahead>) {
    return line<averaged<adam, lookahead>>(gs::averaged{gs::adam{}, gs::lookahead{.period = 3}},
                                           gs::averaged{gs::adam{}, gs::lookahead{.period = 1}},
                                           gs::averaged{gs::adam{.beta1 = 0}, gs::lookahead{3, 1}},
                                           gs::averaged{gs::adam{.beta1 = 0.5}, gs::lookahead{4, 0.3}});
}
// Tests have learning rates up to 3, and lr * rate is at most 1.
constexpr auto line_of(gs::averaged<gs::adam, gs::towards_initial>) {
    return line<averaged<adam, towards_initial>>(gs::averaged{gs::adam{}, gs::towards_initial{0.25}},
                                                 gs::averaged{gs::adam{.beta1 = 0}, gs::towards_initial{0.3}},
                                                 gs::averaged{gs::adam{.beta1 = 0.5}, gs::towards_initial{0.01}});
}

} // namespace oracle
