// Cautious rules in numbers that can be checked by hand.
#include <support/catch.hpp>
#include <support/refusal.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

// One step of momentum; 0.75 m + g agrees with g in two of five.
template <class Rule> numbers moved(Rule const& rule) {
    numbers w(5, 0), m{1, 1, 1, 1, -1};
    gs::make_updater<double>(rule, gs::constant{0.5}).next_step()(w, numbers{1, -0.5, 0.5, 0, 0.5}, m);
    return w;
}

} // namespace

TEST_CASE("cautious: only steps against the gradient are taken, and they are lengthened", "[rules]") {
    using enum gs::rescaling;
    gs::momentum const momentum{.mu = 0.75};
    CHECK(moved(momentum) == numbers{-0.875, -0.125, -0.625, -0.375, 0.125});
    auto const with = [&](gs::rescaling by) { return moved(gs::cautious{momentum, by}); };
    CHECK(with(none) == numbers{-0.875, 0, -0.625, 0, 0});
    CHECK(with(mean) == numbers{2.5 * -0.875, 0, 2.5 * -0.625, 0, 0}); // 2 of 5 take their step
    CHECK(with(count) == numbers{5 / 3. * -0.875, 0, 5 / 3. * -0.625, 0, 0});
}

TEST_CASE("cautious: one step of very many is at most a thousand times as long", "[rules]") {
    std::size_t const n = 5000;
    numbers w(n, 0), m(n, 1), g(n, -0.25);
    g[7] = 1;
    gs::make_updater<double>(gs::cautious{gs::momentum{.mu = 0.5}}, gs::constant{1}).next_step()(w, g, m);
    CHECK(w[7] == Approx(-1500).epsilon(1e-14));
    CHECK(w[8] == 0);
    CHECK(m[8] == 0.25);
}

TEST_CASE("cautious: signs decide, also where a product underflows, and a NaN makes NaN of every step", "[rules]") {
    numbers w(2, 1), m{1e-200, 1e-200};
    auto optimizer = gs::make_updater<double>(gs::cautious{gs::momentum{}, gs::rescaling::none}, gs::constant{1e200});
    optimizer.next_step()(w, numbers{1e-200, -1e-200}, m);
    CHECK(w[0] == Approx(1 - 1.9).epsilon(1e-14));
    CHECK(w[1] == Approx(1 + 0.1).epsilon(1e-14));
    w = {1, 1}, m = {0, 1};
    optimizer.next_step()(w, numbers{std::numeric_limits<double>::quiet_NaN(), 1}, m);
    CHECK(std::isnan(w[0]));
    CHECK(std::isnan(w[1]));
}

TEST_CASE("cautious_adam and cautious_lion have the bits of cautious around the rule", "[rules]") {
    auto const trained = [](auto const& of) {
        auto optimizer = gs::make_updater<float>(of, gs::decoupled{0.25}, gs::constant{0.125});
        using updater = decltype(optimizer);
        std::vector<float> w(101, 1), g(101);
        std::vector<std::vector<float>> slots(updater::slots, std::vector<float>(101));
        for (int t = 0; t < 5; ++t) {
            for (std::size_t i = 0; i < g.size(); ++i)
                g[i] = static_cast<float>(std::sin(static_cast<double>(i + 1) * (t + 1)));
            if constexpr (updater::slots == 1) optimizer.next_step()(w, g, slots[0]);
            else optimizer.next_step()(w, g, slots[0], slots[1]);
        }
        slots.push_back(w);
        return slots;
    };
    gs::adam const adam{.beta1 = 0.5, .epsilon = 1e-3, .epsilon_place = gs::epsilon::hat, .bias_correction = false};
    using enum gs::rescaling;
    CHECK(trained(gs::cautious_adam{0.5, 0.999, 1e-3, gs::epsilon::hat, false, count}) ==
          trained(gs::cautious{adam, count}));
    CHECK(trained(gs::cautious_adam{}) == trained(gs::cautious<gs::adam>{}));
    CHECK(trained(gs::cautious_lion{0.5, 0.75, none}) == trained(gs::cautious{gs::lion{0.5, 0.75}, none}));
    CHECK(trained(gs::cautious_lion{}) != trained(gs::lion{}));
}

// A table against one updater for each row, which gets a gradient of 0 in the steps that the row
// misses.
TEST_CASE("cautious: rows catch up exactly, since a weight without gradient stays", "[rules]") {
    constexpr std::size_t rows = 3, width = 5, steps = 30;
    auto const optimizer =
        gs::make_updater<double>(gs::cautious_adam{}, gs::decoupled{0.1}, gs::constant{0.25}, gs::serial_backend{});
    gs::table table{optimizer, rows, width, gs::exact{}, {.initial = numbers(rows * width, 1)}};
    std::vector<numbers> w(rows, numbers(width, 1)), m(rows, numbers(width)), v = m;
    auto dense = optimizer;
    for (std::size_t t = 1; t <= steps; ++t) {
        std::size_t const touched = t * t % rows; // the last row stays away
        numbers g(width);
        for (std::size_t i = 0; i < width; ++i) g[i] = std::sin(static_cast<double>(5 * t + i));
        table.update(std::vector<std::int64_t>{static_cast<std::int64_t>(touched)}, g);
        auto const step = dense.next_step();
        for (std::size_t r = 0; r < rows; ++r) step(w[r], r == touched ? g : numbers(width), m[r], v[r]);
    }
    for (std::size_t r = 0; r < rows; ++r) {
        auto const row = table.row(static_cast<std::int64_t>(r));
        // The bound of catch_up_each_rule.cpp, with numbers below 8.
        double const allowed = (16 * steps * steps + 36 * steps) * 0x1p-53 * 8;
        for (std::size_t i = 0; i < width; ++i) CHECK(std::abs(row[i] - w[r][i]) <= allowed);
    }
}

TEST_CASE("cautious: a rule whose step depends on the weight is refused", "[rules]") {
    char const* const expected = "cautious.rule: the step depends on the weight; expected a rule that moves along a "
                                 "direction, such as adam, lion or momentum";
    CHECK(refusal<gs::value_error>([] {
              gs::make_updater<float>(gs::cautious{gs::proximal_adagrad{.l1 = 0.5}}, gs::constant{1});
          }) == expected);
    CHECK(refusal<gs::value_error>([] { gs::make_updater<float>(gs::cautious{gs::ftrl{}}, gs::constant{1}); }) ==
          expected);
    CHECK(refusal<gs::value_error>([] {
              gs::make_updater<float>(gs::cautious{gs::lion{.beta1 = 1}}, gs::constant{1});
          }) == "lion.beta1: 1 is out of range; expected [0, 1)");
}

TEST_CASE("cautious: around every rule that it accepts, a step is the rule's own or none", "[rules]") {
    std::string accepted;
    gs::rules::any([&]<class Rule>() {
        if constexpr (gs::detail::moves_along_direction<Rule>) {
            gs::cautious<Rule> const of{Rule{}, gs::rescaling::none};
            try {
                gs::check_policy<double>(of);
            } catch (gs::value_error const&) {
                return false;
            }
            std::string const name(gs::detail::type_name<Rule>());
            accepted += name + ' ';
            for (double const g : {0.5, -0.5, 0.0}) {
                INFO(name << ", g = " << g);
                auto own = gs::detail::initial_state(Rule{}, 0.75), state = own;
                auto const c = of.template prepare<double>({2, 0.125});
                double moved = 0.75, w = 0.75;
                Rule::apply(c.rule, moved, g, own);
                gs::cautious<Rule>::apply(c, 1.0, w, g, state);
                CHECK(w == Approx((moved - 0.75) * g < 0 ? moved : 0.75).epsilon(1e-14));
                gs::detail::host_each<gs::slot_count<Rule>>(
                    [&](auto i) { CHECK(gs::detail::slot<i, Rule>(state) == gs::detail::slot<i, Rule>(own)); });
            }
        }
        return false;
    });
    CHECK(accepted == "adabelief adabound adadelta adagrad adam adamax adan adapnm add_delta ademamix adopt amsgrad "
                      "centered_momentum_rmsprop centered_rmsprop decayed_adagrad ftml laprop lion momentum "
                      "momentum_rmsprop nadam nesterov nesterov_adam optimistic_adam optimistic_sgd pnm "
                      "proximal_adagrad qhadam qhm radam rmsprop rprop sgd two_buffer_adagrad yogi ");
}
