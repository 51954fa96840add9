// Weights that other code sets: training goes on from them, whatever the rule and the average.
#include <support/catch.hpp>

#include <gradstep/averager.hpp>
#include <gradstep/configuration/registry.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <support/numbers.hpp>
#include <support/registry.hpp>

namespace {

constexpr std::size_t rows = 2, width = 3, n = rows * width;
std::vector<float> const none(n, 0.f);

template <class Element, class Rule> auto updater_of(Rule const& rule, double rate = 0.125) {
    return gs::make_updater<Element>(rule, gs::constant{rate}, gs::serial_backend{});
}
template <class Rule> auto parameter_of(Rule const& rule, std::vector<float> const& initial, double rate = 0.125) {
    return gs::parameter{updater_of<float>(rule, rate), initial, {.shape = {rows, width}}};
}
template <class Parameter> void train(Parameter& x, std::uint32_t steps) {
    for (std::uint32_t t = 1; t <= steps; ++t) x.update(numbers<float>(n, t), {.loss = 1.5});
}
template <class Parameter> void stand_still(Parameter& x, std::uint32_t steps) {
    for (std::uint32_t t = 0; t < steps; ++t) x.update(none, {.loss = 1.5});
}
template <class Parameter> std::vector<float> values(Parameter const& x) {
    return {x.values().begin(), x.values().end()};
}
template <class Parameter> std::vector<std::vector<float>> state(Parameter const& x) {
    std::vector<std::vector<float>> out;
    for (char const* const name : std::remove_cvref_t<decltype(x.optimizer())>::state_names) {
        auto const slot = x.state(name);
        out.emplace_back(slot.begin(), slot.end());
    }
    return out;
}
// Weights to set, with a zero and numbers of several sizes.
std::vector<float> pretrained() {
    auto out = numbers<float>(n, 77);
    out[1] = 0;
    out[2] = 1000;
    out[3] = -1e-3f;
    return out;
}
// The state of these begins in another way than weights that are set: as documented.
template <class Rule> constexpr bool forgets_initial_weights = std::is_same_v<Rule, gs::constant_rate_ftrl>;

// These move without a gradient: fromage shrinks every weight, and the m of yogi begins above 0.
template <class Rule>
constexpr bool moves_by_itself = std::is_same_v<Rule, gs::fromage> || std::is_same_v<Rule, gs::yogi>;
// Without the rules that add noise, and the rule whose steps are messages.
using tested_rules = decltype([]<class... R>(gs::type_list<R...>) {
    return (gs::type_list<>{} + ... + std::conditional_t < gs::noisy_rule<R> || gs::detail::sends_messages<R>,
            gs::type_list<>, gs::type_list < R >> {});
}(gs::rules{}));

} // namespace

TEST_CASE("Weights that are set before the first step are those of a parameter that began with them", "[weights_set]") {
    tested_rules::any([]<class Rule>() {
        CAPTURE(gs::detail::type_name<Rule>());
        auto const set = pretrained();
        auto x = parameter_of(Rule{}, none);
        auto expected = parameter_of(Rule{}, set);
        x.set_values(set);
        CHECK(same_bits(values(x), set));
        if constexpr (!forgets_initial_weights<Rule>) {
            CHECK(state(x) == state(expected));
            train(x, 3);
            train(expected, 3);
            CHECK(same_bits(values(x), values(expected)));
        }
        return false;
    });
}

TEST_CASE("A step without gradient leaves weights that were set", "[weights_set]") {
    tested_rules::any([]<class Rule>() {
        CAPTURE(gs::detail::type_name<Rule>());
        auto const set = pretrained();
        // If the state contains no weights, moments go on: steps without gradient leave none.
        bool const is_trained = gs::detail::contains_weights<Rule> && !std::is_same_v<Rule, gs::prodigy>;
        // x0 - s of dadapt_sgd is rounded twice; the z of constant_rate_ftrl, and its quotient, 4 times.
        constexpr bool rounds = std::is_same_v<Rule, gs::dadapt_sgd> || forgets_initial_weights<Rule>;
        for (std::uint32_t const before : {0u, 4u}) {
            CAPTURE(before);
            auto x = parameter_of(Rule{}, numbers<float>(n, 5));
            if (is_trained) train(x, before);
            else stand_still(x, before);
            x.set_values(set);
            stand_still(x, 20);
            for (std::size_t i = 0; i < n && !moves_by_itself<Rule>; ++i) {
                float const largest = std::max(std::abs(set[i]), std::is_same_v<Rule, gs::dadapt_sgd> ? 1.f : 0.f);
                float const allowed = rounds ? 4 * largest * std::numeric_limits<float>::epsilon() : 0;
                CHECK(std::abs(x.values()[i] - set[i]) <= allowed);
            }
        }
        return false;
    });
}

TEST_CASE("A rule whose state begins with weights says what becomes of it when weights are set", "[weights_set]") {
    gs::rules::any([]<class Rule>() {
        CAPTURE(gs::detail::type_name<Rule>());
        constexpr bool begins_with_weights = requires(Rule const& rule) { rule.template initialize<float>(0.0f); };
        CHECK((!begins_with_weights || gs::detail::contains_weights<Rule>));
        return false;
    });
    gs::averages::any([]<class Average>() {
        CAPTURE(gs::detail::type_name<Average>());
        auto const slots_of = [](float w) { return gs::averaged{gs::sgd{}, Average{}}.template initialize<float>(w); };
        bool same = true;
        gs::detail::each<gs::averaged<gs::sgd, Average>::average_slots>([&](auto i) {
            auto zero = slots_of(0), one = slots_of(1);
            using rule = gs::averaged<gs::sgd, Average>;
            same = same && rule::template slot<i>(zero) == rule::template slot<i>(one);
        });
        CHECK((same || gs::detail::contains_weights<Average>));
        return false;
    });
}

TEST_CASE("Penalties of an ftrl rule leave weights that were set, as they leave trained ones", "[weights_set]") {
    auto const check = [](auto const& rule) {
        auto const set = pretrained();
        auto x = parameter_of(rule, numbers<float>(n, 5));
        train(x, 4);
        x.set_values(set);
        stand_still(x, 5);
        for (std::size_t i = 0; i < n; ++i)
            CHECK(std::abs(x.values()[i] - set[i]) <=
                  64 * std::max(0.25f, std::abs(set[i])) * std::numeric_limits<float>::epsilon());
        x.set_values(none); // also of weights that the state held away from 0
        stand_still(x, 5);
        CHECK(values(x) == none);
    };
    check(gs::ftrl{.l1 = 0.25, .l2 = 0.5});
    check(gs::constant_rate_ftrl{.l1 = 0.25});
    check(gs::group_ftrl{.l1 = 0.25});
}

TEST_CASE("What changes weights leaves those that were set: lookahead and towards_initial", "[weights_set]") {
    auto const check = [](auto const& average) {
        auto const set = pretrained();
        for (std::uint32_t const before : {0u, 7u}) {
            auto x = parameter_of(gs::averaged{gs::sgd{}, average}, numbers<float>(n, 5));
            train(x, before);
            x.set_values(set);
            CHECK(x.average() == set);
            stand_still(x, 12);
            CHECK(same_bits(values(x), set));
        }
    };
    check(gs::lookahead{});
    check(gs::towards_initial{0.5});
}

TEST_CASE("Until a step is averaged, an average is the weights that were set; then it goes on", "[weights_set]") {
    std::vector<float> const set(n, 5.f);
    auto const fresh = [&](auto const& average) {
        auto x = parameter_of(gs::averaged{gs::sgd{}, average}, none);
        x.set_values(set);
        CHECK(x.average() == set);
        stand_still(x, 3);
        CHECK(x.average() == set);
    };
    fresh(gs::ema{});
    fresh(gs::ema{.decay = 0.9, .debias = true});
    fresh(gs::polyak{});
    fresh(gs::window{.rate = 0.5, .min = 2, .max = 4});
    auto const before_start = [&](auto const& average) {
        auto x = parameter_of(gs::averaged{gs::sgd{}, average}, none);
        train(x, 4);
        x.set_values(set);
        CHECK(x.average() == set);
        stand_still(x, 20);
        CHECK(x.average() == set);
    };
    before_start(gs::ema{.start = 10});
    before_start(gs::polyak{.start = 10});
    auto x = parameter_of(gs::averaged{gs::sgd{}, gs::polyak{}}, std::vector<float>(n, 1.f));
    stand_still(x, 1);
    x.set_values(set);
    CHECK(x.average() == std::vector<float>(n, 1.f));
    stand_still(x, 1);
    CHECK(x.average() == std::vector<float>(n, 3.f));
}

TEST_CASE("A master copy and the averages above it become weights that were set", "[weights_set]") {
    auto const set = numbers<gs::bfloat16>(n, 77);
    auto const initial = numbers<gs::bfloat16>(n, 5);
    auto const optimizer = updater_of<gs::mixed<gs::bfloat16>>(gs::averaged{gs::madgrad{}, gs::lookahead{}});
    gs::parameter x{optimizer, initial};
    for (std::uint32_t t = 1; t < 5; ++t) x.update(numbers<gs::bfloat16>(n, t));
    x.set_values(set);
    for (int t = 0; t < 6; ++t) x.update(std::vector<gs::bfloat16>(n));
    for (std::size_t i = 0; i < n; ++i) {
        CHECK(static_cast<float>(x.values()[i]) == static_cast<float>(set[i]));
        CHECK(x.state<"master">()[i] == static_cast<float>(set[i]));
    }
}

TEST_CASE("Memory of the program: weights_set of updaters, models and averagers", "[weights_set]") {
    auto optimizer = updater_of<float>(gs::schedule_free_sgd{});
    std::vector<float> w(n), z(n), g(n);
    optimizer.initialize(w, z);
    optimizer.next_step()(w, none, z);
    w = pretrained();
    SECTION("buffers") { optimizer.weights_set(w, z); }
    SECTION("a slice") { optimizer.weights_set(gs::slice<decltype(optimizer)>(w, none, z)); }
    SECTION("several slices") {
        std::vector<gs::slice<decltype(optimizer)>> const all{{w, none, z}};
        optimizer.weights_set(all);
    }
    SECTION("a model") {
        gs::model net;
        net.add("w", optimizer, {w, g, z});
        net.weights_set({"*"});
        net.update();
        CHECK(same_bits(w, pretrained()));
    }
    CHECK(same_bits(z, pretrained()));
    optimizer.next_step()(w, none, z);
    CHECK(same_bits(w, pretrained()));

    gs::averager average{gs::ema{}, none, gs::serial_backend{}};
    average.weights_set(w);
    average.add(w);
    CHECK(average.average() == w);
}

TEST_CASE("Rows of tables are set with their state, after their pending steps", "[weights_set]") {
    auto const check = [](auto const& rule, auto const& policy) {
        gs::table table{updater_of<float>(rule), 5, width, policy, {.initial = gs::uniform{-1, 1, 3}}};
        std::vector<std::int64_t> const both{1, 3}, one{1};
        for (std::uint32_t t = 1; t < 5; ++t) table.update(both, numbers<float>(2 * width, t));
        table.update(one, numbers<float>(width, 9)); // row 3 misses it
        auto const other = table.row(0), set = pretrained();
        table.set_rows(both, set);
        for (std::size_t t = 0; t < 12; ++t)
            table.update(t < 6 ? one : both, std::vector<float>((t < 6 ? 1 : 2) * width));
        for (std::size_t i = 0; i < width; ++i) {
            CHECK(table.row(1)[i] == set[i]);
            CHECK(table.row(3)[i] == set[width + i]);
        }
        CHECK(table.row(0) == other);
    };
    check(gs::madgrad{}, gs::touch_only{});
    check(gs::madgrad{}, gs::replay{50});
    check(gs::cocob{}, gs::exact{});
    check(gs::averaged{gs::sgd{}, gs::lookahead{}}, gs::exact{});
    check(gs::averaged{gs::sgd{}, gs::towards_initial{0.5}}, gs::exact{});
}

TEST_CASE("A row that is added has the average of a row that always stood there", "[weights_set]") {
    auto const optimizer = updater_of<float>(
        gs::averaged{gs::averaged{gs::sgd{}, gs::window{.rate = 0.15, .min = 4, .max = 8}}, gs::ema{}});
    gs::table table{optimizer, 2, 1, gs::exact{}, {.initial = 7.0}};
    std::vector<std::int64_t> const first{0};
    std::vector<float> const zero{0};
    auto const all_are_7 = [&] {
        for (std::int64_t row = 0; row < static_cast<std::int64_t>(table.num_rows()); ++row)
            CHECK(table.average(row)[0] == 7);
    };
    for (int t = 0; t < 9; ++t) table.update(first, zero);
    table.grow(3);
    table.append(std::vector<float>{7});
    table.grow(5, gs::new_rows::since_the_start);
    table.reset(std::vector<std::int64_t>{1});
    all_are_7();
    table.update(first, zero);
    all_are_7();

    // A tensor that an updater takes over while it runs.
    auto window = updater_of<float>(gs::averaged{gs::sgd{}, gs::window{.rate = 0.15, .min = 4, .max = 8}});
    std::vector<float> w{7}, a(1), b(1), c(1), out(1);
    window.seek({.step = 9});
    window.initialize(w, a, b, c);
    for (int t = 0; t < 4; ++t) {
        window.average(out, w, a, b, c);
        CHECK(out[0] == 7);
        window.next_step()(w, zero, a, b, c);
    }
}

TEST_CASE("What does not fit is refused by set_values, set_rows and weights_set", "[weights_set]") {
    auto x = parameter_of(gs::averaged{gs::sgd{}, gs::ema{}}, none);
    float const* const null = nullptr;
    auto const before = state(x);
    CHECK_THROWS_AS(x.set_values(std::vector<float>(n + 1)), gs::size_error);
    CHECK_THROWS_AS(x.set_values(std::span(null, n)), gs::buffer_error);
    stand_still(x, 1);
    {
        auto const applied = x.apply_average();
        CHECK_THROWS_AS(x.set_values(none), gs::sequence_error);
    }
    CHECK(state(x) == before);
    x.set_values(x.values()); // its own memory
    CHECK(values(x) == none);

    gs::table table{updater_of<float>(gs::sgd{}), 2, width};
    CHECK_THROWS_AS(table.set_rows(std::vector<std::int64_t>{2}, std::vector<float>(width)), gs::value_error);
    CHECK_THROWS_AS(table.set_rows(std::vector<std::int64_t>{1}, std::vector<float>(width + 1)), gs::size_error);
    gs::model net;
    CHECK_THROWS_AS(net.weights_set({"w"}), gs::value_error);
}
