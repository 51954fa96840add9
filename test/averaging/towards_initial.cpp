// Decay towards the initial weights, against a loop around an optimizer that knows nothing of it.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t n = 100;

template <class Regularizer> void follow(gs::towards_initial const& policy, Regularizer const& regularizer) {
    CAPTURE(policy.rate);
    gs::cosine const rate{.rate = 0.05, .steps = 30};
    std::vector<float> w = numbers<float>(n, 99), m(n), v(n);
    auto const initial = w;
    gs::parameter with{gs::make_updater<float>(gs::averaged{gs::adam{}, policy}, regularizer, rate), w};
    auto inner = gs::make_updater<float>(gs::adam{}, regularizer, rate);
    for (std::int64_t t = 1; t <= 23; ++t) {
        auto const g = numbers<float>(n, static_cast<std::uint32_t>(t));
        with.update(g);
        auto const step = inner.next_step();
        step(w, g, m, v);
        auto const share = static_cast<float>(step.rate() * policy.rate);
        for (std::size_t i = 0; i != n; ++i) w[i] = gs::math::fnma(share, w[i] - initial[i], w[i]);
        CHECK(std::ranges::equal(with.values(), w));
        CHECK(std::ranges::equal(with.average(), initial));
        CHECK(std::ranges::equal(with.state("initial"), initial));
        CHECK(std::ranges::equal(with.state("m"), m));
    }
}

} // namespace

TEST_CASE("towards_initial decays the distance to the initial weights, after everything else",
          "[averages][towards_initial]") {
    follow(gs::towards_initial{0.5}, gs::none{});
    follow(gs::towards_initial{0}, gs::decoupled{0.1});
    follow(gs::towards_initial{20}, gs::proximal{gs::l1{0.5}}); // lr * rate = 1 in step 1, which goes all the way
}

TEST_CASE("with sgd it is the penalty of the paper, apart from the order", "[averages][towards_initial]") {
    // In long double, from the paper's equation: the gradient of loss + rate / 2 * |w - w0|^2, at
    // the weight before the step. The two differ by lr^2 * rate * g a step, which the decay keeps
    // from adding up beyond lr * g.
    double const lr = 0x1p-8, rate = 0.5, g = 0.25;
    gs::parameter x{gs::make_updater<double>(gs::averaged{gs::sgd{}, gs::towards_initial{rate}}, gs::constant{lr}),
                    std::vector<double>{3}};
    long double paper = 3;
    for (int t = 0; t < 4000; ++t) {
        x.update(std::vector<double>{g});
        paper -= lr * (g + rate * (paper - 3));
    }
    double const off = static_cast<double>(x.values()[0] - paper);
    CHECK(std::abs(off) <= lr * g * 1.01);
    CHECK(std::abs(off) >= lr * g / 2); // they are not the same
    CHECK(std::abs(paper - (3 - g / rate)) < 0.01L);
}

TEST_CASE("options of a step, rate scales, lookahead and averages go with towards_initial",
          "[averages][towards_initial]") {
    gs::towards_initial const half{1}; // lr * rate = 0.5
    gs::ema const follows{.decay = 0.5, .start = 1};
    auto const run = [](auto const& rule, int steps) {
        gs::parameter x{gs::make_updater<float>(rule, gs::constant{0.5}), std::vector<float>{10}};
        std::vector<float> g{1};
        for (int t = 1; t <= steps; ++t) {
            g[0] = 4;
            x.update(g, {.gradient_scale = 0.5, .zero_gradient = true});
            CHECK(g[0] == 0);
        }
        return x;
    };
    // 9 -> 9.5, 8.5 -> 9.25, 8.25 -> 9.125
    auto const inside = run(gs::averaged{gs::averaged{gs::sgd{}, half}, follows}, 3);
    CHECK(inside.values()[0] == 9.125f);
    CHECK(inside.average()[0] == 9.25f); // 9.5, 9.375, 9.25
    auto const outside = run(gs::averaged{gs::averaged{gs::sgd{}, follows}, half}, 3);
    CHECK(outside.values()[0] == 9.125f);
    CHECK(outside.state("average")[0] == 9.25f);
    CHECK(outside.average()[0] == 10);
    // Steps that lookahead does not see decay too: 9.5, 9.25 -> 9.625, 9.3125, 9.15625 -> 9.390625
    gs::lookahead const two{.period = 2, .alpha = 0.5};
    CHECK(run(gs::averaged{gs::averaged{gs::sgd{}, half}, two}, 3).values()[0] == 9.3125f);
    CHECK(run(gs::averaged{gs::averaged{gs::sgd{}, half}, two}, 4).values()[0] == 9.390625f);

    // The rate_scale of a tensor scales the decay, too, and its `decay` does not.
    auto optimizer = gs::make_updater<float>(gs::averaged{gs::sgd{}, half}, gs::decoupled{0}, gs::constant{0.5});
    std::vector<float> w{8}, g{0}, initial{0};
    gs::slice<decltype(optimizer)> x(w, g, initial);
    x.rate_scale = 0.5;
    x.decay = false;
    optimizer.next_step()(x);
    CHECK(w[0] == 6);
}

TEST_CASE("with 16 bits the initial weights keep their digits", "[averages][towards_initial]") {
    using storage = gs::bfloat16;
    gs::averaged const rule{gs::sgd{}, gs::towards_initial{1}};
    gs::parameter x{gs::make_updater<gs::mixed<storage>>(rule, gs::constant{0.5}), std::vector<storage>{storage(1)}};
    x.update(std::vector<storage>{storage(0x1p-9f)}); // 1 - 2^-10, and half of it back
    CHECK(x.state("master")[0] == 1 - 0x1p-11f);
    CHECK(x.state("initial")[0] == 1);
    CHECK(float(x.values()[0]) == 1);
}

TEST_CASE("towards_initial refuses rates that overshoot, before anything is written", "[averages][towards_initial]") {
    auto const made = [](double rate, double lr) {
        gs::parameter x{gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::towards_initial{rate}}, gs::constant{lr}),
                        std::vector<float>{1}};
        std::string const out = refusal<gs::value_error>([&] { x.update(std::vector<float>{1}); });
        CHECK(x.values()[0] == 1);
        return out;
    };
    CHECK(made(3, 0.5) ==
          "towards_initial: lr * rate = 0.5 * 3; expected <= 1, or the weight moves beyond its initial value");
    CHECK(refusal<gs::value_error>([&] { made(-1, 0.5); }) ==
          "towards_initial.rate: -1 is out of range; expected finite and >= 0");
    CHECK(refusal<gs::value_error>([&] { made(gs::missing, 0.5); }) ==
          "towards_initial.rate: is missing; expected a number that is finite and >= 0");
}
