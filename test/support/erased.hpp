#pragma once
/// What stands behind the virtual functions of support/runs.hpp: one type of updater, one rule and
/// its oracle.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <support/probe_pack.hpp>
#include <support/registry.hpp>
#include <support/runs.hpp>

namespace runs {

/// Which calls of a step are compiled. Each costs as much as the other, and they differ in what the
/// element does not touch.
enum class calls { with_one_tensor, with_many, both };

namespace detail {

template <class Updater> class typed {
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;

public:
    static constexpr std::size_t slots = Updater::slots;
    static_assert(slots <= std::tuple_size_v<decltype(view::state)>);

    static layout format() {
        layout out{&type_of<storage>, &type_of<state_type>, {}, gs::settled_rule<typename Updater::rule_type>};
        for (std::size_t i = 0; i < slots; ++i) out.slots.push_back({Updater::state_names[i], Updater::is_row_slot(i)});
        return out;
    }
    /// f(weight, gradient, state...)
    template <class F> static auto call(view const& x, F const& f) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return f(std::span(static_cast<storage*>(x.weight), x.size),
                     std::span(static_cast<storage*>(x.gradient), x.size),
                     std::span(static_cast<state_type*>(x.state[I]), Updater::slot_size(I, x.size))...);
        }
        (std::make_index_sequence<slots>{});
    }
};

template <calls Calls, class Updater> struct step_of final : step::concept_of_it {
    typename Updater::step_type it;

    explicit step_of(typename Updater::step_type s) : it(std::move(s)) {}

    std::int64_t number() const override { return it.number(); }
    double rate() const override { return it.rate(); }
    void take(view const& x) const override {
        if constexpr (Calls != calls::with_many) typed<Updater>::call(x, [&](auto... buffers) { it(buffers...); });
        else throw std::logic_error("a call with one tensor was not compiled");
    }
    void take(std::span<view const> tensors) const override {
        if constexpr (Calls != calls::with_one_tensor) {
            std::vector<gs::slice<Updater>> model;
            for (view const& x : tensors) {
                auto const slice = [](auto... buffers) { return gs::slice<Updater>(buffers...); };
                model.push_back(typed<Updater>::call(x, slice));
                model.back().decay = x.decay;
                model.back().rate_scale = x.rate_scale;
                model.back().bfloat16_copy = x.bfloat16_copy;
            }
            it(model);
        } else {
            throw std::logic_error("a call with many tensors was not compiled");
        }
    }
};

template <calls Calls, class Updater> struct optimizer_of final : optimizer::concept_of_it {
    Updater it;
    layout of_tensors = typed<Updater>::format();

    explicit optimizer_of(Updater u) : it(std::move(u)) {}

    std::unique_ptr<concept_of_it> copy() const override { return std::make_unique<optimizer_of>(*this); }
    layout const& format() const override { return of_tensors; }
    void initialize(view const& x) const override {
        typed<Updater>::call(x, [&](auto weight, auto, auto... state) { it.initialize(weight, state...); });
    }
    void visit_state(view const& x, gs::detail::state_visitor& to) const override {
        typed<Updater>::call(x, [&](auto weight, auto, auto... state) {
            gs::detail::visit_state(to, gs::detail::tensor<Updater>(weight, state...), it);
        });
    }
    step next_step(gs::step_options const& options) override {
        gs::step_options own = options;
        if (gs::detail::settles_by_loss<typename Updater::rule_type> && !own.loss)
            own.loss = loss_of(it.clock().step + 1);
        return step(std::make_unique<step_of<Calls, Updater>>(it.next_step(own)));
    }
    gs::clock clock() const override { return it.clock(); }
    void seek(gs::clock at) override { it.seek(at); }
};

} // namespace detail

template <calls Calls = calls::with_one_tensor, class Updater> optimizer erased(Updater updater) {
    return optimizer(std::make_unique<detail::optimizer_of<Calls, Updater>>(std::move(updater)));
}

namespace detail {

template <std::size_t N> std::array<oracle::real, N> reals(snapshot const& x, std::size_t first, std::size_t i) {
    std::array<oracle::real, N> out;
    for (std::size_t s = 0; s < N; ++s) out[s] = x.state[first + s][i];
    return out;
}

// Lets the formula of a row-wise rule see the whole tensor. Without elements, the row's state does
// not change.
template <class Rule, class Oracle>
std::vector<oracle::outcome> settled(Oracle& formula, snapshot const& before, std::size_t n) {
    constexpr std::size_t slots = gs::slot_count<Rule>, row_slots = gs::row_slot_count<Rule>;
    auto const row = reals<row_slots>(before, slots, 0);
    if (n == 0) {
        std::vector<oracle::outcome> out;
        for (oracle::real const x : row) out.push_back({x, 0});
        return out;
    }
    auto const observed = [&](std::size_t i) {
        return formula.accumulate(before.weight[i], before.gradient[i], reals<slots>(before, 0, i));
    };
    decltype(observed(0)) sums;
    std::vector<oracle::outcome> parts(n);
    for (std::size_t m = 0; m < sums.size(); ++m) {
        for (std::size_t i = 0; i < n; ++i) parts[i] = observed(i)[m];
        sums[m] = oracle::total_of(formula, parts, m);
    }
    auto const after = formula.finalize(sums, static_cast<oracle::real>(n), row);
    return {after.begin(), after.end()};
}

// The sums of a model-wise rule over some tensors.
template <class Rule, class Oracle> auto model_sums(Oracle const& formula, std::span<snapshot const> tensors) {
    constexpr std::size_t slots = gs::slot_count<Rule>;
    auto const observed = [&](snapshot const& x, std::size_t i) {
        return formula.accumulate(x.weight[i], x.gradient[i], reals<slots>(x, 0, i));
    };
    decltype(observed(tensors[0], 0)) sums;
    for (std::size_t m = 0; m < sums.size(); ++m) {
        sums[m] = {0, 0};
        for (snapshot const& x : tensors) {
            std::vector<oracle::outcome> parts(x.weight.size());
            for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = observed(x, i)[m];
            sums[m] = oracle::added(sums[m], formula.total(parts), formula.at.host);
        }
    }
    return sums;
}

// The normal number of element i in a step of a tensor with the id 0 and the seed 0, as the library
// has it.
inline oracle::real noise_of(oracle::now const& at, std::size_t i) {
    auto const words = gs::detail::noise_words(0, at.t, 0);
    if (at.host == 1) return gs::detail::standard_normal<double>(words, i);
    return gs::detail::standard_normal<float>(words, i);
}

} // namespace detail

/// What `formula` expects of its step on a tensor.
template <class Rule, class Oracle> prediction predicted(Oracle formula, snapshot const& before) {
    constexpr std::size_t slots = gs::slot_count<Rule>;
    std::size_t const n = before.weight.size();
    prediction out;
    if constexpr (gs::row_wise_rule<Rule>) out.row = detail::settled<Rule>(formula, before, n);
    for (std::size_t i = 0; i < n; ++i) {
        auto const one = [&] {
            auto const state = detail::reals<slots>(before, 0, i);
            if constexpr (gs::noisy_rule<Rule>)
                return formula(before.weight[i], before.gradient[i], state, detail::noise_of(formula.at, i));
            else return formula(before.weight[i], before.gradient[i], state);
        }();
        prediction::of_element& to = out.elements.emplace_back();
        to = {one.weight, one.update, {}, one.at_threshold};
        for (std::size_t s = 0; s < slots; ++s) to.state[s] = one.state[s];
    }
    return out;
}

/// One line of the registry with one setting.
template <class Oracle, class Rule> class rule_of final : public rule {
public:
    explicit rule_of(Rule r) : rule_(r) {
        row_wise = gs::settled_rule<Rule>;
        model_wise = gs::model_wise_rule<Rule>;
        noisy = gs::noisy_rule<Rule>;
        compresses = gs::detail::sends_messages<Rule>;
        carries = oracle::carries<Oracle>(r);
        bounded = oracle::bounded<Oracle>();
        keeps_rates = oracle::keeps_rates<Oracle>(r);
        decays = oracle::decays<Oracle>(r);
        unread = oracle::unread<Oracle>(r);
        differences = oracle::differences<Oracle>();
        inferred = oracle::inferred<Oracle>();
        overwritten = oracle::overwritten<Oracle>();
    }

    std::string description() const override { return gs::describe(rule_); }
    std::vector<element> const& elements() const override {
        static auto const all = []<class... Element>(std::type_identity<std::tuple<Element...>>) {
            std::vector<element> out;
            ((has<Element> ? out.push_back(element_of<Element>()) : void()), ...);
            return out;
        }(std::type_identity<element_types>{});
        return all;
    }
    optimizer on(element const& e, backend b, executor& executor) const override {
        return with(e, [&]<class Element>(std::type_identity<Element>) -> optimizer {
            if constexpr (std::same_as<Element, float>) {
                if (b == backend::probe) return made<calls::with_one_tensor, Element>(probe_backend{});
                if (b == backend::simd) return made<calls::both, Element>(gs::simd_backend{executor});
                if (b == backend::serial) return made<calls::with_one_tensor, Element>(gs::serial_backend{});
            } else if constexpr (has<Element>) {
                if (b == backend::simd) return made<calls::with_one_tensor, Element>(gs::simd_backend{executor});
                if constexpr (has_serial_steps<Element>)
                    if (b == backend::serial) return made<calls::with_one_tensor, Element>(gs::serial_backend{});
            }
            throw std::logic_error("the rule was not compiled for this element and backend");
        });
    }
    std::vector<prediction> predict(element const& e, gs::clock const& before, gs::clock const& after, double rate,
                                    std::span<snapshot const> tensors) const override {
        oracle::now now = e.compute == &type_of<double>
                              ? oracle::step_in<double>(after.step, rate, after.state, before.state)
                              : oracle::step_in<float>(after.step, rate, after.state, before.state);
        now.loss = loss_of(after.step);
        Oracle formula(rule_, now);
        std::vector<oracle::outcome> clock;
        if constexpr (gs::model_wise_rule<Rule>) {
            auto const settled = formula.settle(detail::model_sums<Rule>(formula, tensors));
            clock.assign(settled.begin(), settled.begin() + Rule::clock_state_names.size());
        }
        std::vector<prediction> out;
        for (snapshot const& x : tensors) out.push_back(predicted<Rule>(formula, x));
        out.at(0).clock = clock;
        return out;
    }
    std::unique_ptr<rule> without_epsilon() const override {
        if constexpr (requires { rule_.epsilon; }) {
            Rule r = rule_;
            r.epsilon = 0;
            return std::make_unique<rule_of>(r);
        } else {
            return nullptr;
        }
    }

private:
    // Whether the rule is compiled for an element. Elements of 16 bits differ in how a kernel reads and
    // writes numbers, so a rule has one of the four, in turn; a rule that stands for its mechanism has
    // all.
    template <class Element>
    static constexpr bool has = [] {
        if (std::same_as<Element, float> ||
            rules_of_each_mechanism::any([]<class R>() { return std::same_as<R, Rule>; }))
            return true;
        constexpr std::size_t of_16_bits = std::tuple_size_v<element_types> - 2;
        using in_turn = std::tuple_element_t<2 + registered::index_of<Rule> % of_16_bits, element_types>;
        return !in_float_alone && (std::same_as<Element, double> || std::same_as<Element, in_turn>);
    }();

    template <calls Calls, class Element, class Backend> optimizer made(Backend backend) const {
        return erased<Calls>(gs::make_updater<Element>(rule_, gs::external{}, backend));
    }
    // f(type of e)
    template <class F> static optimizer with(element const& e, F const& f) {
        return [&]<class... Element>(std::type_identity<std::tuple<Element...>>) {
            std::array const each{+[](F const& g) { return g(std::type_identity<Element>{}); }...};
            return each.at(e.number)(f);
        }(std::type_identity<element_types>{});
    }
    Rule rule_;
};

template <class Oracle, class Rule, std::size_t N> rules settings_of_line(oracle::entry<Oracle, Rule, N> const& line) {
    rules out;
    for (Rule const& r : line.settings) out.push_back(std::make_unique<rule_of<Oracle, Rule>>(r));
    return out;
}

} // namespace runs
