// Lookahead against its algorithm, written as two loops around an optimizer that knows nothing of
// it.
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

// Inner loops of `period` steps, and after each the slow weights, to which the weights return.
template <class Regularizer> void follow(gs::lookahead const& policy, Regularizer const& regularizer) {
    CAPTURE(policy.period, policy.alpha);
    gs::constant const rate{0.05};
    std::vector<float> w = numbers<float>(n, 99), m(n), v(n), slow = w;
    gs::parameter with{gs::make_updater<float>(gs::averaged{gs::adam{}, policy}, regularizer, rate), w};
    auto inner = gs::make_updater<float>(gs::adam{}, regularizer, rate);
    for (std::int64_t t = 1; t <= 23; ++t) {
        auto const g = numbers<float>(n, static_cast<std::uint32_t>(t));
        with.update(g);
        inner.next_step()(w, g, m, v);
        if (t % policy.period == 0)
            for (std::size_t i = 0; i != n; ++i)
                w[i] = slow[i] = gs::math::fma(static_cast<float>(policy.alpha), w[i] - slow[i], slow[i]);
        CHECK(std::ranges::equal(with.values(), w));
        CHECK(std::ranges::equal(with.average(), slow));
        CHECK(std::ranges::equal(with.state("slow"), slow));
        CHECK(std::ranges::equal(with.state("m"), m));
    }
}

} // namespace

TEST_CASE("lookahead is its algorithm, around any regularizer", "[averages][lookahead]") {
    follow(gs::lookahead{}, gs::none{});
    follow(gs::lookahead{.period = 1, .alpha = 0.25}, gs::decoupled{0.1});
    follow(gs::lookahead{.period = 3, .alpha = 1}, gs::none{});
    follow(gs::lookahead{.period = 4, .alpha = 0.8}, gs::proximal{gs::l1{0.5}}); // which acts after the rule
}

TEST_CASE("options of a step and averages go with lookahead", "[averages][lookahead]") {
    // The average is of the weight as it is stored, after the pull, and the order of nesting has no
    // effect.
    auto const run = [](auto const& rule, char const* slow, char const* average) {
        gs::parameter x{gs::make_updater<float>(rule, gs::constant{0.5}), std::vector<float>{10}};
        std::vector<float> g{1};
        for (int t = 1; t <= 4; ++t) {
            g[0] = 1;
            x.update(g, {.gradient_scale = 2, .zero_gradient = true});
            CHECK(g[0] == 0);
        }
        CHECK(x.values()[0] == 8); // 9, 8 -> 9; 8, 7 -> 8
        CHECK(x.state(slow)[0] == 8);
        // 9, 9, 8, 8
        CHECK(x.state(average)[0] == 8.25f);
        return x.average()[0];
    };
    gs::lookahead const two{.period = 2, .alpha = 0.5};
    gs::ema const half{.decay = 0.5, .start = 1};
    CHECK(run(gs::averaged{gs::averaged{gs::sgd{}, two}, half}, "slow", "average2") == 8.25f);
    CHECK(run(gs::averaged{gs::averaged{gs::sgd{}, half}, two}, "slow2", "average") == 8);
}

TEST_CASE("with 16 bits the slow weights keep their digits", "[averages][lookahead]") {
    // 1 - 2^-9 rounds to 1 in bfloat16. The slow weights are halfway, and the weight is their
    // rounded value.
    auto const check = [](auto const& optimizer, float master) {
        using storage = gs::bfloat16;
        gs::parameter x{optimizer, std::vector<storage>{storage(1)}};
        x.update(std::vector<storage>{storage(0x1p-9f)});
        x.update(std::vector<storage>{storage(0x1p-9f)});
        CHECK(x.state("slow")[0] == master);
        CHECK(float(x.values()[0]) == float(storage(master)));
    };
    gs::averaged const rule{gs::sgd{}, gs::lookahead{.period = 2, .alpha = 0.5}};
    check(gs::make_updater<gs::bfloat16>(rule, gs::constant{1}), 1 - 0x1p-10f); // the first step was lost
    check(gs::make_updater<gs::mixed<gs::bfloat16>>(rule, gs::constant{1}), 1 - 0x1p-9f);
}

TEST_CASE("lookahead goes on from a clock, and refuses numbers out of range", "[averages][lookahead]") {
    gs::averaged const rule{gs::sgd{}, gs::lookahead{.period = 5, .alpha = 0.5}};
    auto optimizer = gs::make_updater<float>(rule, gs::constant{1});
    optimizer.seek({.step = 13});
    std::vector<float> w{4}, g{1}, slow{8};
    optimizer.next_step()(w, g, slow);
    CHECK(w[0] == 3);
    CHECK(slow[0] == 8);
    optimizer.next_step()(w, g, slow);
    CHECK(w[0] == 5); // 2 and 8
    CHECK(slow[0] == 5);

    auto const refused = [](gs::lookahead const& policy) {
        return refusal<gs::value_error>([&] {
            gs::make_updater<float>(gs::averaged{gs::sgd{}, policy}, gs::constant{1});
        });
    };
    CHECK(refused({.period = 0}) == "lookahead.period: 0 is out of range; expected >= 1");
    CHECK(refused({.alpha = 0}) == "lookahead.alpha: 0 is out of range; expected (0, 1]");
    CHECK(refused({.alpha = 1.5}) == "lookahead.alpha: 1.5 is out of range; expected (0, 1]");
}
