// What the functions of the dialects are to their caller, and what a dialect leaves behind of its
// system.
#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/optax.hpp>
#include <gradstep/dialects/torch.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

TEST_CASE("a function of a dialect gives a constant, by the system's names", "[dialects]") {
    constexpr gs::rmsprop plain = gs::dialects::torch::rmsprop({.alpha = 0.9});
    STATIC_REQUIRE(plain.rho == 0.9);
    STATIC_REQUIRE(plain.epsilon == 1e-8);

    constexpr auto outside = gs::dialects::torch::rmsprop_momentum({.alpha = 0.99, .eps = 1e-8, .momentum = 0.9});
    constexpr auto inside = gs::dialects::keras::rmsprop_momentum({.rho = 0.9, .momentum = 0.9, .epsilon = 1e-7});
    STATIC_REQUIRE(outside.rate_place == gs::learning_rate::outside);
    STATIC_REQUIRE(inside.rate_place == gs::learning_rate::inside);
    STATIC_REQUIRE(outside.epsilon_place == gs::epsilon::outside);
    STATIC_REQUIRE(inside.epsilon_place == gs::epsilon::inside);
}

TEST_CASE("a number out of range is refused by the rule that it is given to", "[dialects]") {
    auto const refused = [](auto rule) {
        return refusal<gs::value_error>(
            [&] { gs::make_updater<float>(rule, gs::constant{0.1}, gs::serial_backend{}); });
    };
    CHECK(refused(gs::dialects::torch::adam({.beta2 = 1})) == "adam.beta2: 1 is out of range; expected [0, 1)");
    CHECK(refused(gs::dialects::optax::rmsprop({.decay = -1})) == "rmsprop.rho: -1 is out of range; expected [0, 1)");
}

TEST_CASE("the centered root of a gradient that stays the same is a number, where torch's becomes NaN", "[dialects]") {
    auto optimizer = gs::make_updater<float>(gs::dialects::torch::rmsprop_centered({.alpha = 0.5}), gs::constant{0.01},
                                             gs::serial_backend{});
    std::vector<float> w(64), g(64), n(64), a(64);
    for (std::size_t i = 0; i < g.size(); ++i) g[i] = 0.1f + 2.9f / 63 * static_cast<float>(i);
    optimizer.initialize(w, n, a);
    for (int t = 0; t < 200; ++t) optimizer.next_step()(w, g, n, a);

    auto const is_finite = [](float x) { return std::isfinite(x); };
    CHECK(std::all_of(w.begin(), w.end(), is_finite));
    // For some, the formula with fma would take the root of a negative number.
    bool lost = false;
    for (std::size_t i = 0; i < w.size(); ++i) lost = lost || std::fma(-a[i], a[i], n[i]) < 0;
    CHECK(lost);
}
