// Cautious rules in numbers that can be checked by hand.
#include <support/catch.hpp>
#include <support/refusal.hpp>

#include <gradstep/gradstep.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
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

TEST_CASE("cautious: a product of signs decides that underflows as a number, and NaN reaches its weight", "[rules]") {
    numbers w(3, 1), m{1e-200, 1e-200, 1};
    auto optimizer = gs::make_updater<double>(gs::cautious{gs::momentum{}, gs::rescaling::none}, gs::constant{1e200});
    optimizer.next_step()(w, numbers{1e-200, -1e-200, std::numeric_limits<double>::quiet_NaN()}, m);
    CHECK(w[0] < 0);
    CHECK(w[1] > 1);
    CHECK(std::isnan(w[2]));
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
