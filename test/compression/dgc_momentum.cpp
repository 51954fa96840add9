// dgc_momentum against Algorithm 4 of its paper, written out in long double, and what must hold of
// compressed steps whatever the numbers are.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/closing_pool.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/trainer.hpp"

namespace gs = gradstep;

namespace {

using real = long double;

// An exact multiple of 2^-6 in [-1, 1): it and sums of many are exact in float, and each is a
// bfloat16.
double dyadic(std::int64_t t, std::size_t i) {
    auto const x = static_cast<std::uint64_t>(t) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    return static_cast<double>(static_cast<std::int64_t>((x ^ x >> 29) >> 20 & 127) - 64) / 64;
}
template <class S> S stored(double x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return S(static_cast<float>(x));
}

using elements = std::tuple<float, double, gs::bfloat16, gs::mixed<gs::bfloat16>, gs::stochastic<gs::bfloat16>>;

// A number and by how much the library may be off, in units of half an epsilon, as in
// support/oracle.hpp.
struct outcome {
    real value, error;
};

} // namespace

// Every step is predicted from what the library holds before it, operation by operation in the
// order of rules/dgc_momentum.hpp: an operation rounds once, a scalar of the step is held rounded.
// The bounds leave out products of roundings, below 1 %.
TEMPLATE_LIST_TEST_CASE("A compressed step is the paper's Algorithm 4", "[core][compression]", elements) {
    using compute = typename gs::element_traits<TestType>::compute;
    using storage = typename gs::element_traits<TestType>::storage;
    constexpr int unfused = GRADSTEP_FMA ? 0 : 1; // roundings of the product of a multiply-add
    constexpr real unit = std::numeric_limits<compute>::epsilon() / real(2);
    constexpr bool is_half = sizeof(storage) == 2, is_stochastic = gs::element_traits<TestType>::is_stochastic;
    bool const nesterov = GENERATE(false, true);
    double const clip = GENERATE(std::numeric_limits<double>::infinity(), 3.0);
    double const mu = 0.9, rate = 0.3, decay = 0.03, gradient_scale = 0.7;
    std::size_t const n = 1500;
    auto optimizer = gs::make_updater<TestType>(gs::dgc_momentum{.mu = mu,
                                                                 .rampup_step = 3,
                                                                 .sparsity = {0.5, 0.9, 0.99},
                                                                 .nesterov = nesterov,
                                                                 .local_grad_clip_norm = clip,
                                                                 .dense_below = 0},
                                                gs::l2{decay}, gs::constant{rate});
    trainer<TestType> x(n);
    x.initialize(optimizer);

    real worst = 0;
    auto const within = [&](real got, outcome const& expected) {
        worst = std::max(worst, std::abs(got - expected.value) / (1.01L * unit * expected.error));
    };
    for (std::int64_t t = 1; t <= 6; ++t) {
        CAPTURE(t, nesterov, clip);
        x.g = numbers<storage>(n, static_cast<std::uint32_t>(17 * t));
        auto const before = x;
        auto const step = optimizer.next_step({.gradient_scale = gradient_scale});
        std::size_t const k = step.entries(n);
        gs::sparse_message const message = x.compress(step);

        real squares = 0;
        for (storage const g : before.g) squares += real(gs::detail::widen(g)) * real(gs::detail::widen(g));
        real const norm = static_cast<compute>(gradient_scale) * std::sqrt(squares);
        real const scale = static_cast<compute>(gradient_scale) * std::min<real>(1, real(clip) / norm);
        // Held in the arithmetic's type; the norm is summed in double, n roundings at most for each
        // of its squares.
        real const scale_error = 1 + static_cast<real>(n) * 0x1p-53L / unit;
        REQUIRE(message.count() == k);
        std::vector<outcome> v(n);
        std::vector<compute> made(x.v); // v before the entries were sent
        auto const values = message.template values<storage>();
        for (std::size_t e = 0; e < k; ++e) {
            std::size_t const i = message.index(e);
            CHECK(x.u[i] == 0);
            made[i] = x.v[i] + static_cast<compute>(gs::detail::widen(values[e]));
            CHECK(stored<storage>(static_cast<double>(made[i])) == values[e]);
        }
        for (std::size_t i = 0; i < n; ++i) {
            real const w = before.trained(i), g0 = gs::detail::widen(before.g[i]), u0 = before.u[i], v0 = before.v[i];
            outcome g{scale * g0, (scale_error + 1) * std::abs(scale * g0)};
            real const pull = decay * w;
            g = {g.value + pull, g.error + (1 + unfused) * std::abs(pull) + std::abs(g.value + pull)};
            outcome u;
            if (nesterov) {
                real const sum = u0 + g.value, product = mu * sum;
                u = {product, mu * (g.error + std::abs(sum)) + 2 * std::abs(product)};
            } else {
                real const sum = mu * u0 + g.value;
                u = {sum, (1 + unfused) * std::abs(mu * u0) + g.error + std::abs(sum)};
            }
            v[i] = {v0 + u.value, u.error + std::abs(v0 + u.value)};
            if (nesterov) v[i] = {v[i].value + g.value, v[i].error + g.error + std::abs(v[i].value + g.value)};
            within(made[i], v[i]);
            bool const sent = made[i] != x.v[i] || x.u[i] == 0;
            if (!sent) within(x.u[i], u);
        }
        // The entries: by a stable sort of what v was.
        std::vector<std::size_t> order(n);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return std::abs(made[a]) > std::abs(made[b]); });
        order.resize(k);
        std::sort(order.begin(), order.end());
        for (std::size_t e = 0; e < k; ++e) CHECK(message.index(e) == order[e]);
        CHECK(same_bits(x.w, before.w));

        x.apply(step, std::array{message});
        std::size_t e = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (e == k || message.index(e) != i) {
                CHECK(same_bits(std::vector{x.w[i]}, std::vector{before.w[i]}));
                continue;
            }
            real const moved = rate * real(gs::detail::widen(values[e++])), w = before.trained(i) - moved;
            outcome expected{w, (1 + unfused) * std::abs(moved) + std::abs(w)};
            within(x.trained(i),
                   is_half && !trainer<TestType>::has_master
                       ? outcome{w, expected.error + std::abs(w) * (is_stochastic ? 0x1p-7L : 0x1p-8L) / unit}
                       : expected);
            if constexpr (trainer<TestType>::has_master)
                CHECK(x.w[i] == stored<storage>(static_cast<double>(x.master[i])));
        }
        CHECK(worst <= 1);
    }
}

TEMPLATE_LIST_TEST_CASE(
    "What entered is what was sent and what lies in v, over a ramp, a checkpoint and another sparsity",
    "[core][compression]", elements) {
    using storage = typename gs::element_traits<TestType>::storage;
    bool const by_sample = GENERATE(false, true);
    std::size_t const n = 5000;
    gs::dgc_momentum rule{.mu = 0,
                          .rampup_begin_step = 0,
                          .rampup_step = 10,
                          .sparsity = {0.5, 0.9, 0.999},
                          .dense_below = 0,
                          .selected = by_sample ? gs::selection::sampled : gs::selection::exact};
    gs::l2 const nothing{0}; // one optimizer for all these tests takes less to compile
    auto optimizer = gs::make_updater<TestType>(rule, nothing, gs::constant{0.5});
    auto x = std::make_unique<trainer<TestType>>(n);
    x->initialize(optimizer);
    std::vector<double> entered(n), sent(n);
    for (std::int64_t t = 1; t <= 40; ++t) {
        if (t == 7) { // a run that goes on from a checkpoint: u, v, clock
            auto restored = gs::make_updater<TestType>(rule, nothing, gs::constant{0.5});
            restored.seek(optimizer.clock());
            optimizer = restored;
            x = std::make_unique<trainer<TestType>>(*x);
        }
        if (t == 20) {
            rule.sparsity = {0.25};
            auto const at = optimizer.clock();
            optimizer = gs::make_updater<TestType>(rule, nothing, gs::constant{0.5});
            optimizer.seek(at);
        }
        for (std::size_t i = 0; i < n; ++i) {
            x->g[i] = stored<storage>(dyadic(t, i));
            entered[i] += static_cast<double>(gs::detail::widen(x->g[i]));
        }
        auto const step = optimizer.next_step();
        auto const message = x->compress(step);
        auto const values = message.template values<storage>();
        if (by_sample) CHECK((message.count() >= 1 && message.count() <= 2 * step.entries(n)));
        else CHECK(message.count() == step.entries(n));
        for (std::size_t e = 0; e < message.count(); ++e)
            sent[message.index(e)] += static_cast<double>(gs::detail::widen(values[e]));
        x->apply(step, std::span(&message, 1));
        bool conserved = true;
        for (std::size_t i = 0; i < n; ++i)
            conserved = conserved && entered[i] == sent[i] + static_cast<double>(x->v[i]);
        CHECK(conserved);
        CHECK_FALSE(is_zero(x->v));
    }
}

TEMPLATE_LIST_TEST_CASE("Before the ramp, and for small tensors always, the step is that of momentum bit for bit",
                        "[core][compression]", elements) {
    bool const nesterov = GENERATE(false, true);
    auto const begin = GENERATE(std::int64_t(1000), std::int64_t(0));
    std::size_t const n = begin == 0 ? 99 : 301;
    auto const own = gs::make_updater<TestType>(
        gs::dgc_momentum{
            .mu = 0.8, .rampup_begin_step = begin, .nesterov = nesterov, .num_trainers = 3, .dense_below = 100},
        gs::l2{0.1}, gs::constant{0.3});
    auto const run = [&](auto const& rule) {
        trainer<TestType> x(n);
        auto dense = own, compressed = own;
        auto reference = gs::make_updater<TestType>(rule, gs::l2{0.1}, gs::constant{0.3});
        auto const initial = x.w;
        x.initialize(own);
        std::vector<typename trainer<TestType>::state> m(n), master = x.master;
        auto w = x.w;
        trainer<TestType> halves = x;
        x.v.assign(n, 5); // is left alone
        for (std::uint32_t t = 1; t <= 5; ++t) {
            x.g = halves.g = numbers<typename trainer<TestType>::storage>(n, t);
            gs::step_options const options{.gradient_scale = t == 3 ? 0.5 : 1, .zero_gradient = t == 4};
            auto g = x.g, h = halves.g;
            if constexpr (trainer<TestType>::has_master) reference.next_step(options)(w, g, m, master);
            else reference.next_step(options)(w, g, m);
            x.update(dense.next_step(options));
            CHECK((same_bits(x.w, w) && same_bits(x.u, m) && same_bits(x.master, master) && same_bits(x.g, g)));
            CHECK(std::all_of(x.v.begin(), x.v.end(), [](auto each) { return each == 5; }));

            // Each of three trainers sends it: their mean is what each sent, rounded at the
            // division.
            auto const step = compressed.next_step(options);
            REQUIRE(step.is_dense(n));
            auto const message = halves.compress(step);
            CHECK((message.is_dense() && is_zero(halves.v) && same_bits(halves.g, g)));
            if (t == 1 && sizeof(typename trainer<TestType>::storage) > 2) {
                auto const sent = message.template values<typename trainer<TestType>::storage>();
                CHECK(same_bits(std::vector(sent.begin(), sent.end()), h));
            }
            halves.apply(step, std::vector(3, message));
        }
    };
    if (nesterov) run(gs::nesterov{.mu = 0.8});
    else run(gs::momentum{.mu = 0.8});
}

TEST_CASE("A dense message of a single trainer takes the dense step bit for bit", "[core][compression]") {
    std::size_t const n = 1000;
    for (bool const nesterov : {false, true}) {
        auto whole = gs::make_updater<float>(gs::dgc_momentum{.nesterov = nesterov}, gs::l2{0.1}, gs::constant{0.3});
        auto halves = whole;
        trainer<float> a(n), b(n);
        for (std::uint32_t t = 1; t < 5; ++t) {
            a.g = b.g = numbers<float>(n, t);
            a.update(whole.next_step({.gradient_scale = 0.3}));
            auto const step = halves.next_step({.gradient_scale = 0.3});
            step.apply(b.w, b.u, b.v, step.compress(b.w, b.g, b.u, b.v));
            CHECK(a == b);
        }
    }
}

TEST_CASE("The sparsity walks its list over the ramp", "[core][compression]") {
    auto const at = [](gs::dgc_momentum const& rule, std::int64_t t) { return rule.sparsity_of(t + 1); };
    std::vector<double> const list{0.75, 0.9375, 0.984375, 0.996, 0.999};
    for (std::int64_t const begin : {0, 1000}) {
        gs::dgc_momentum const rule{.rampup_begin_step = begin, .rampup_step = 100, .sparsity = list};
        for (std::int64_t t = 0; t < 300; ++t)
            CHECK(at(rule, begin + t) == list[static_cast<std::size_t>(std::min<std::int64_t>(4, t / 20))]);
        if (begin != 0) {
            CHECK(rule.is_before_ramp(begin));
            CHECK(at(rule, begin - 1) == 0);
        }
        CHECK_FALSE(rule.is_before_ramp(begin + 1));
    }
    // index = (step - begin) * length / rampup_step for lengths that do not divide it, shorter
    // ramps and the longest.
    for (std::int64_t const length : {1, 2, 3, 7})
        for (std::int64_t const ramp : {1, 2, 3, 5, 11, 64, 100}) {
            gs::dgc_momentum rule{.rampup_step = ramp,
                                  .sparsity = std::vector<double>(static_cast<std::size_t>(length))};
            for (std::size_t i = 0; i < rule.sparsity.size(); ++i) rule.sparsity[i] = static_cast<double>(i) / 10;
            for (std::int64_t t = 0; t < ramp + 3; ++t) {
                CAPTURE(length, ramp, t);
                CHECK(at(rule, t) ==
                      rule.sparsity[static_cast<std::size_t>(std::min(length - 1, std::min(t, ramp) * length / ramp))]);
            }
        }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    gs::dgc_momentum const longest{.rampup_step = most, .sparsity = {0.1, 0.2, 0.3, 0.4}};
    CHECK(at(longest, most / 2 - 1) == 0.2);
    CHECK(at(longest, most / 2 + 1) == 0.3);
    CHECK(at(longest, most - 2) == 0.4);
}

TEST_CASE("k is round((1 - sparsity) n), and never 0", "[core][compression]") {
    auto const k = gs::dgc_momentum::entries_of;
    CHECK(k(0.999, 1) == 1);
    CHECK(k(0.999, 499) == 1);
    CHECK(k(0.999, 1'000'000) == 1000);
    CHECK(k(0.75, 10) == 3); // 2.5, away from zero
    CHECK(k(0, 10) == 10);
    CHECK(k(0.5, 0) == 0);
    auto step = gs::make_updater<float>(gs::dgc_momentum{.rampup_begin_step = 1, .dense_below = 50}, gs::constant{1});
    CHECK(step.next_step().entries(100) == 100);
    auto const second = step.next_step();
    CHECK(second.entries(100) == 1);
    CHECK(second.entries(49) == 49);
    CHECK(second.is_dense(49));
    CHECK(second.sparsity() == 0.999);
}

TEST_CASE("A call of dense and sparse steps names the tensor that it refuses", "[core][compression]") {
    auto optimizer = gs::make_updater<float>(gs::dgc_momentum{.dense_below = 50}, gs::constant{1});
    auto const step = optimizer.next_step();
    using slice = gs::slice<decltype(optimizer)>;
    for (std::size_t const n : {20u, 100u}) { // dense, sparse
        std::vector<float> w(100, 1), g = w, u = w, v = w, w1(n, 1), g1 = w1, u1 = w1, v1 = w1;
        std::vector<slice> tensors{{w, g, u, v}, {w1, g1, u1, v1}};
        tensors[1].decay = -1;
        CHECK(refusal<gs::value_error>([&] { step(tensors); }) ==
              "tensor 1: decay: -1 is out of range; expected finite and >= 0");
        CHECK((w == g && u == g && v == g && w1 == g1));
    }
}

TEST_CASE("Of equal entries those at lower indices are sent", "[core][compression]") {
    for (std::size_t const n : {1u, 2u, 16u, 1000u, 20000u}) {
        auto optimizer =
            gs::make_updater<float>(gs::dgc_momentum{.sparsity = {0.9}, .dense_below = 0}, gs::constant{1});
        std::vector<float> g(n, 0.5f), u(n), v(n);
        for (std::size_t i = 0; i < n; i += 3) g[i] = -0.5f;
        auto const first = optimizer.next_step().compress(g, u, v);
        for (std::size_t e = 0; e < first.count(); ++e) CHECK(first.index(e) == e);
        auto const second = optimizer.next_step().compress(g, u, v); // those that were left are larger now
        for (std::size_t e = 0; n >= 16 && e < second.count(); ++e) CHECK(second.index(e) == first.count() + e);
    }
}

TEST_CASE("NaN and infinities are sent first, and are gone from u and v", "[core][compression]") {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::size_t const n = 20000;
    auto optimizer = gs::make_updater<float>(gs::dgc_momentum{.dense_below = 0}, gs::constant{1});
    auto w = numbers<float>(n, 1), g = numbers<float>(n, 2), u = std::vector<float>(n), v = u;
    g[17] = inf;
    g[18000] = -inf;
    g[9000] = nan;
    auto const step = optimizer.next_step();
    auto const message = step.compress(g, u, v);
    CHECK(message.count() == 20);
    auto const values = message.values<float>();
    int found = 0;
    for (std::size_t e = 0; e < message.count(); ++e) found += !std::isfinite(values[e]);
    CHECK(found == 3);
    CHECK(!gs::first_nonfinite(optimizer.backend(), u));
    CHECK(!gs::first_nonfinite(optimizer.backend(), v));
    step.apply(w, message);
    CHECK(w[17] == -inf);
    CHECK(std::isnan(w[9000]));

    auto clipping =
        gs::make_updater<float>(gs::dgc_momentum{.local_grad_clip_norm = 1, .dense_below = 0}, gs::constant{1});
    auto const before = v;
    g[17] = inf;
    CHECK_THAT(refusal<gs::value_error>([&] { clipping.next_step().compress(g, u, v); }),
               ContainsSubstring("dgc_momentum.local_grad_clip_norm: the gradient's norm: "));
    CHECK(same_bits(v, before));
}

TEST_CASE("A trainer clips to the limit's share of a root of their number", "[core][compression]") {
    std::size_t const n = 500;
    auto const sent = [&](std::int64_t trainers, double limit, double scale) {
        gs::dgc_momentum const rule{
            .sparsity = {0}, .local_grad_clip_norm = limit, .num_trainers = trainers, .dense_below = 0};
        auto optimizer = gs::make_updater<float>(rule, gs::l2{0}, gs::constant{1});
        trainer<float> x(n);
        auto const values = optimizer.next_step({.gradient_scale = scale}).compress(x.w, x.g, x.u, x.v);
        return values.encode();
    };
    CHECK(sent(4, 3, 1) == sent(1, 1.5, 1));
    CHECK(sent(4, 3, -8) == sent(1, 1.5, -8));
    CHECK(sent(4, 3, 1) != sent(1, 3, 1));
    CHECK(sent(1, 1e9, 1) == sent(1, std::numeric_limits<double>::infinity(), 1));
}

TEST_CASE("What 16 bits would make infinite is sent as their largest number, and the rest later",
          "[core][compression]") {
    auto optimizer = gs::make_updater<gs::float16>(gs::dgc_momentum{.mu = 0, .dense_below = 0}, gs::constant{1});
    std::vector<gs::float16> g(3, gs::float16(0.0f));
    std::vector<float> u(3), v{0, -100000, 1};
    auto const message = optimizer.next_step().compress(g, u, v);
    CHECK(message.index(0) == 1);
    CHECK(static_cast<float>(message.values<gs::float16>()[0]) == -65504);
    CHECK(v[1] == -100000 + 65504);
}

TEST_CASE("Trainers that send all hold what one trainer with the mean gradient holds", "[core][compression]") {
    std::size_t const n = 300, trainers = 4;
    gs::dgc_momentum rule{.mu = 0.5, .sparsity = {0}, .num_trainers = 4, .dense_below = 0};
    auto of_four = gs::make_updater<double>(rule, gs::constant{0.25});
    rule.num_trainers = 1;
    auto alone = gs::make_updater<double>(rule, gs::constant{0.25});
    std::vector<decltype(of_four)> optimizers(trainers, of_four);
    std::vector<trainer<double>> x(trainers, trainer<double>(n));
    trainer<double> one(n);
    for (std::int64_t t = 1; t <= 6; ++t) {
        std::vector<gs::sparse_message> messages;
        std::fill(one.g.begin(), one.g.end(), 0);
        for (std::size_t r = 0; r < trainers; ++r) {
            for (std::size_t i = 0; i < n; ++i) {
                x[r].g[i] = dyadic(t * 10 + static_cast<std::int64_t>(r), i);
                one.g[i] += x[r].g[i] / 4; // exact
            }
            messages.push_back(optimizers[r].next_step().compress(x[r].g, x[r].u, x[r].v));
        }
        for (std::size_t r = 0; r < trainers; ++r) {
            optimizers[r].seek({.step = t - 1});
            auto const step = optimizers[r].next_step();
            if (r % 2 == 0) step.apply(x[r].w, messages);
            else step.apply(x[r].w, messages[0], messages[1], messages[2], messages[3]);
        }
        one.update(alone.next_step());
        for (trainer<double> const& each : x) CHECK(same_bits(each.w, one.w));
    }
}

TEST_CASE("Several messages are added in the order of the ranks, as a plain loop does", "[core][compression]") {
    gs::thread_pool pool(3);
    for (std::size_t const n : {1u, 5u, 1000u, 70000u, 300000u})
        for (double const sparsity : {0.0, 0.75, 0.99}) {
            gs::dgc_momentum const rule{.sparsity = {sparsity}, .num_trainers = 3, .dense_below = 0};
            auto optimizer = gs::make_updater<float>(rule, gs::l2{0.01}, gs::constant{0.3}, gs::simd_backend{pool});
            auto serial = gs::make_updater<float>(rule, gs::l2{0.01}, gs::constant{0.3}, gs::serial_backend{});
            std::vector<gs::sparse_message> messages;
            auto const step = optimizer.next_step();
            auto const same = serial.next_step();
            for (std::uint32_t r = 0; r < 3; ++r) {
                trainer<float> x(n, 10 * r);
                messages.push_back(step.compress(x.w, x.g, x.u, x.v));
            }
            auto w = numbers<float>(n, 1), other = w, expected = w;
            std::vector<float> sums(n, -0.0f);
            std::vector<bool> touched(n);
            for (auto const& m : messages)
                for (std::size_t e = 0; e < m.count(); ++e) {
                    sums[m.index(e)] += m.values<float>()[e];
                    touched[m.index(e)] = true;
                }
            for (std::size_t i = 0; i < n; ++i)
                if (touched[i]) expected[i] = gs::math::fma(-0.3f, sums[i] / 3, expected[i]);
            step.apply(w, messages);
            same.apply(other, messages);
            CAPTURE(n, sparsity);
            CHECK(same_bits(w, expected));
            CHECK(same_bits(other, expected));
        }
}

TEST_CASE("A sampled threshold sends what is not below it, the same for a seed", "[core][compression]") {
    std::size_t const n = 100000;
    auto const sent = [&](std::uint64_t seed, double sparsity) {
        auto optimizer = gs::make_updater<float>(
            gs::dgc_momentum{.sparsity = {sparsity}, .dense_below = 0, .selected = gs::selection::sampled},
            gs::constant{1});
        trainer<float> x(n);
        auto const step = optimizer.next_step({.seed = seed});
        auto const message = step.compress(x.g, x.u, x.v);
        float least = std::numeric_limits<float>::infinity(), kept = 0;
        for (float const value : message.values<float>()) least = std::min(least, std::abs(value));
        for (float const value : x.v) kept = std::max(kept, std::abs(value));
        CHECK(least > kept);
        // A sample of m finds the k-th of n within sqrt(m k / n) places of it, or six times that.
        double const k = static_cast<double>(step.entries(n)), off = 6 * std::sqrt(65536 * k / static_cast<double>(n));
        CHECK(std::abs(static_cast<double>(message.count()) - k) <= (off + 1) * static_cast<double>(n) / 65536);
        return message.encode();
    };
    for (double const sparsity : {0.5, 0.99, 0.999}) {
        CHECK(sent(1, sparsity) == sent(1, sparsity));
        CHECK(sent(1, sparsity) != sent(2, sparsity));
    }
    // Where all are equal, all would be sent: the 2 k at the lowest indices are.
    auto optimizer = gs::make_updater<float>(gs::dgc_momentum{.dense_below = 0, .selected = gs::selection::sampled},
                                             gs::constant{1});
    std::vector<float> g(n, 1), u(n), v(n);
    auto const message = optimizer.next_step().compress(g, u, v);
    CHECK(message.count() == 200);
    CHECK(message.index(199) == 199);
    std::fill(g.begin(), g.end(), 0.0f);
    std::fill(u.begin(), u.end(), 0.0f);
    std::fill(v.begin(), v.end(), 0.0f);
    CHECK(optimizer.next_step().compress(g, u, v).count() == 100); // of zeros, k
}

TEST_CASE("Slices of dense and of compressed steps go in one call, each with its own options", "[core][compression]") {
    gs::dgc_momentum const rule{.sparsity = {0.9}, .dense_below = 1000};
    auto const optimizer = gs::make_updater<gs::stochastic<gs::bfloat16>>(rule, gs::l2{0.1}, gs::constant{0.3});
    using slice = gs::slice<decltype(optimizer)>;
    auto together = optimizer, apart = optimizer;
    std::vector<trainer<gs::stochastic<gs::bfloat16>>> a{trainer<gs::stochastic<gs::bfloat16>>(3000, 1),
                                                         trainer<gs::stochastic<gs::bfloat16>>(10, 5),
                                                         trainer<gs::stochastic<gs::bfloat16>>(2000, 9)};
    auto b = a;
    for (int t = 0; t < 3; ++t) {
        auto const slices = [](auto& of) {
            std::vector<slice> out;
            for (auto& x : of) out.emplace_back(x.w, x.g, x.u, x.v);
            out[2].decay = false;
            out[2].rate_scale = 0.5;
            out[1].rate_scale = 2;
            return out;
        };
        auto const all = slices(a), each = slices(b);
        together.next_step({.seed = 3})(all);
        auto const step = apart.next_step({.seed = 3});
        for (std::size_t k = 0; k < each.size(); ++k) {
            slice one = each[k];
            one.id = k;
            if (k == 1) step(one);
            else step.apply(one, step.compress(one));
        }
        for (std::size_t k = 0; k < a.size(); ++k) CHECK(a[k] == b[k]);
    }
    CHECK_FALSE(is_zero(a[0].v));
    CHECK(is_zero(a[1].v));
}

TEST_CASE("Parameters of several trainers compress and apply, and hold the same bits", "[core][compression]") {
    std::size_t const n = 2000;
    gs::dgc_momentum const rule{
        .rampup_begin_step = 2, .rampup_step = 3, .sparsity = {0.5, 0.9}, .num_trainers = 2, .dense_below = 0};
    auto const optimizer = gs::make_updater<gs::stochastic<gs::bfloat16>>(rule, gs::l2{0.1}, gs::constant{0.3});
    auto const initial = numbers<gs::bfloat16>(n, 1);
    using parameter = gs::compressed_parameter<std::remove_const_t<decltype(optimizer)>>;
    std::vector<parameter> trainers(2, parameter(optimizer, initial, {.id = 7}));
    auto by_hand = optimizer;
    trainer<gs::stochastic<gs::bfloat16>> x(n), y(n);
    x.w = y.w = initial;
    for (std::uint32_t t = 1; t <= 8; ++t) {
        std::vector<gs::sparse_message> messages;
        std::vector<std::vector<gs::bfloat16>> const g{numbers<gs::bfloat16>(n, t), numbers<gs::bfloat16>(n, 100 + t)};
        for (std::size_t r = 0; r < 2; ++r) messages.push_back(trainers[r].compress(g[r], {.seed = 9}));
        CHECK(trainers[0].awaits_messages());
        trainers[0].apply(messages);
        trainers[1].apply(messages[0], messages[1]);
        CHECK_FALSE(trainers[0].awaits_messages());

        auto const step = by_hand.next_step({.seed = 9});
        auto const a = step.compress(x.w, g[0], x.u, x.v), b = step.compress(y.w, g[1], y.u, y.v);
        step.apply(7, x.w, x.u, x.v, a, b);
        step.apply(7, y.w, y.u, y.v, a, b);
        for (parameter const& each : trainers) {
            CHECK(same_bits(std::vector(each.values().begin(), each.values().end()), x.w));
            CHECK(each.clock() == by_hand.clock());
        }
        auto const v = trainers[1].state<"v">();
        CHECK(same_bits(std::vector(v.begin(), v.end()), y.v));
    }
}

TEST_CASE("A parameter that compresses takes its calls in their order alone, and loses nothing",
          "[core][compression]") {
    std::size_t const n = 100;
    auto const optimizer = gs::make_updater<float>(gs::dgc_momentum{.mu = 0, .sparsity = {0.9}, .dense_below = 0},
                                                   gs::l2{0}, gs::constant{1});
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    gs::compressed_parameter weights{optimizer, initial};
    auto const sequence = [](auto const& call) { return refusal<gs::sequence_error, std::logic_error>(call); };
    CHECK(sequence([&] { weights.apply(gs::sparse_message()); }) ==
          "apply: no step has begun; expected compress() first");
    CHECK_THAT(refusal<gs::size_error>([&] { weights.compress(std::vector<float>(99)); }), ContainsSubstring("99"));
    CHECK_FALSE(weights.awaits_messages());
    CHECK(weights.clock() == gs::clock{});
    auto const message = weights.compress(g);
    CHECK(weights.clock().step == 1);
    CHECK(sequence([&] { weights.compress(g); }) ==
          "compress: the messages of the last step have not been applied; expected apply() first");
    CHECK(sequence([&] { weights.update(g); }) ==
          "update: the messages of the last step have not been applied; expected apply() first");
    CHECK(sequence([&] { weights.parameter().update(g); }).starts_with("update: the messages of the last step"));
    CHECK(sequence([&] { weights.parameter().ascend(g); }).starts_with("ascend: the messages of the last step"));
    CHECK_THAT(refusal<gs::value_error>([&] { weights.apply(message, message); }), ContainsSubstring("expected 1"));
    CHECK(same_bits(std::vector(weights.values().begin(), weights.values().end()), initial));
    weights.apply(message);

    gs::parameter whole{optimizer, initial};
    whole.update(g);
    CHECK(same_bits(std::vector(whole.values().begin(), whole.values().end()),
                    std::vector(weights.values().begin(), weights.values().end())));
    for (std::size_t i = 0; i < n; ++i)
        CHECK(initial[i] - weights.values()[i] + weights.state<"v">()[i] == g[i]); // dyadic numbers: exact
}

TEST_CASE("While an average is in the place of its values, a parameter neither compresses nor applies",
          "[core][compression]") {
    std::size_t const n = 100;
    auto const optimizer =
        gs::make_updater<float>(gs::dgc_momentum{.sparsity = {0.9}, .dense_below = 0}, gs::l2{0}, gs::constant{1});
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2), averages = numbers<float>(n, 3);
    gs::compressed_parameter weights{optimizer, initial}, without = weights;
    auto const sequence = [](auto const& call) { return refusal<gs::sequence_error, std::logic_error>(call); };
    std::string const sentence = ": the average is in the place of the weights; expected restore() first";
    {
        auto const applied = weights.parameter().apply_average(averages);
        CHECK(sequence([&] { weights.compress(g); }) == "compress" + sentence);
        CHECK((weights.clock() == gs::clock{} && !weights.awaits_messages()));
    }
    auto const message = weights.compress(g);
    {
        auto const applied = weights.parameter().apply_average(averages);
        CHECK(sequence([&] { weights.apply(message); }) == "apply" + sentence);
        CHECK(weights.awaits_messages());
    }
    weights.apply(message);
    without.update(g);
    CHECK(same_bits(std::vector(weights.values().begin(), weights.values().end()),
                    std::vector(without.values().begin(), without.values().end())));
    CHECK(
        refusal<gs::buffer_error>([&] {
            weights.parameter().apply_average(std::span<float const>(static_cast<float const*>(nullptr), n)).dismiss();
        }) == "apply_average: averages is null; expected 100 elements of memory");
    CHECK_FALSE(weights.parameter().average_is_applied());
}

TEST_CASE("Where an executor fails, compress counts the step if u and v have the gradient, and only then",
          "[core][compression]") {
    std::size_t const n = 200'000;
    closing_pool host;
    auto const optimizer =
        gs::make_updater<float>(gs::dgc_momentum{.sparsity = {0.9}, .local_grad_clip_norm = 1, .dense_below = 0},
                                gs::l2{0}, gs::constant{1}, gs::simd_backend{host.threads});
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    int refused = 0, begun = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        gs::compressed_parameter weights{optimizer, initial};
        if (!host.stops(allowed, [&] { weights.compress(g); })) break;
        CAPTURE(allowed);
        auto const v = weights.state<"v">();
        bool const has_gradient = !is_zero(std::vector(v.begin(), v.end()));
        CHECK(weights.clock().step == (has_gradient ? 1 : 0));
        CHECK_FALSE(weights.awaits_messages());
        ++(has_gradient ? begun : refused);
    }
    CHECK((refused >= 1 && begun >= 1));
}

TEST_CASE("Where an executor fails in apply, the messages cannot move the values twice", "[core][compression]") {
    std::size_t const n = 200'000;
    closing_pool host;
    auto const optimizer =
        gs::make_updater<float>(gs::dgc_momentum{.sparsity = {0.9}, .local_grad_clip_norm = 1, .dense_below = 0},
                                gs::l2{0}, gs::constant{1}, gs::simd_backend{host.threads});
    auto const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    int failed = 0;
    for (std::size_t allowed = 0;; ++allowed) {
        gs::compressed_parameter weights{optimizer, initial};
        gs::sparse_message const message = weights.compress(g);
        if (!host.stops(allowed, [&] { weights.apply(message); })) break;
        CAPTURE(allowed);
        ++failed;
        CHECK_FALSE(weights.awaits_messages());
        std::vector<float> const before(weights.values().begin(), weights.values().end());
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { weights.apply(message); }) ==
              "apply: no step has begun; expected compress() first");
        CHECK(std::ranges::equal(weights.values(), before));
        weights.apply(weights.compress(g)); // the next step is taken
        CHECK(weights.clock().step == 2);
    }
    CHECK(failed >= 1);
}

TEST_CASE("A gradient that is not finite is left out of what is sent, where that is asked for", "[core][compression]") {
    std::size_t const n = 100;
    auto const begin = GENERATE(std::int64_t(0), std::int64_t(9)); // sparse, dense
    auto const optimizer = gs::make_updater<float>(
        gs::dgc_momentum{.rampup_begin_step = begin, .sparsity = {0.9}, .dense_below = 0}, gs::l2{0}, gs::constant{1});
    auto const initial = numbers<float>(n, 1);
    auto g = numbers<float>(n, 2);
    g[5] = std::numeric_limits<float>::infinity();
    gs::compressed_parameter skips{optimizer, initial, {.on_nonfinite = gs::nonfinite::skip}};
    auto const message = skips.compress(g, {.zero_gradient = true});
    CHECK(message.count() == (begin == 0 ? 0 : n));
    CHECK(is_zero(g));
    CHECK(gs::sparse_message::decode(message.encode()).count() == message.count());
    skips.apply(message);
    CHECK(same_bits(std::vector(skips.values().begin(), skips.values().end()), initial));
    CHECK(skips.clock().step == 1);
    g[5] = std::numeric_limits<float>::quiet_NaN();
    gs::compressed_parameter raises{optimizer, initial, {.on_nonfinite = gs::nonfinite::raise}};
    CHECK_THAT((refusal<gs::nonfinite_error, std::runtime_error>([&] { raises.compress(g); })),
               ContainsSubstring("gradient[5]"));
    CHECK((raises.clock().step == 0 && !raises.awaits_messages()));
}

TEST_CASE("Messages of another step, tensor or element are refused, and nothing is written", "[core][compression]") {
    gs::dgc_momentum const rule{.rampup_begin_step = 1, .num_trainers = 2, .dense_below = 0};
    auto optimizer = gs::make_updater<float>(rule, gs::constant{1});
    auto doubles = gs::make_updater<double>(rule, gs::constant{1});
    trainer<float> x(50);
    trainer<double> y(50);
    auto const dense = optimizer.next_step();
    auto const of_first = dense.compress(x.g, x.u, x.v);
    auto const step = optimizer.next_step();
    auto const good = step.compress(x.g, x.u, x.v);
    doubles.next_step();
    auto const of_double = doubles.next_step().compress(y.g, y.u, y.v);
    trainer<float> shorter(49);
    auto const of_shorter = step.compress(shorter.g, shorter.u, shorter.v);
    auto other = gs::make_updater<float>(gs::dgc_momentum{.rampup_begin_step = 9, .dense_below = 0}, gs::constant{1});
    other.seek({.step = 1});
    auto const not_sparse = other.next_step().compress(x.g, x.u, x.v);

    auto const before = x;
    using list = std::vector<gs::sparse_message>;
    auto const refused = [&](list const& messages) {
        auto const short_form = refusal<gs::value_error>([&] { step.apply(x.w, messages); });
        CHECK(refusal<gs::value_error>([&] { step.apply(x.w, x.u, x.v, messages); }) == short_form);
        CHECK(x == before);
        return short_form;
    };
    CHECK(refused({good}) == "apply: there are 1 messages; expected 2, one of each trainer in the order of their ranks "
                             "(dgc_momentum.num_trainers)");
    CHECK_THAT(refused({good, good, good}), ContainsSubstring("there are 3 messages; expected 2"));
    CHECK(refused({good, of_double}) == "apply: messages[1] is of double; expected float");
    CHECK(refused({good, gs::sparse_message()}) == "apply: messages[1] is of no element; expected float");
    CHECK(refused({of_shorter, good}) == "apply: messages[0] is of a tensor of 49 elements; expected 50");
    CHECK(refused({of_first, good}) == "apply: messages[0] is of step 1; expected step 2");
    CHECK(refused({good, not_sparse}) == "apply: messages[1] is dense; expected sparse in this step");
    CHECK(refusal<gs::value_error>([&] {
              dense.apply(x.w, list{of_first, of_first});
          }) == "apply: the step of this tensor is dense; expected the state too, as apply(w, u, v, messages)");
    CHECK(refusal<gs::value_error>([&] {
              dense.apply(x.w, x.u, x.v, list{of_first, good});
          }) == "apply: messages[1] is of step 2; expected step 1");
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { step(x.w, x.g, x.u, x.v); }) ==
          "dgc_momentum.num_trainers: 2, and from the ramp on a step needs the messages of all trainers; expected 1; "
          "call compress and apply");
    CHECK_THAT((refusal<gs::sequence_error, std::logic_error>(
                   [&] { static_cast<void>(step.batch(gs::slice<decltype(optimizer)>(x.w, x.g, x.u, x.v))); })),
               ContainsSubstring("elements is sparse; expected a dense step, which can be split"));
    CHECK_THAT(refusal<gs::size_error>([&] { step.compress(x.g, x.u, shorter.v); }), ContainsSubstring("v: has 49"));
    CHECK_THAT(refusal<gs::buffer_error>([&] { step.compress(x.g, x.u, x.u); }), ContainsSubstring("v: overlaps u"));
    std::vector<float> const constant = x.g;
    auto zeroing = optimizer.next_step({.zero_gradient = true});
    CHECK_THAT(refusal<gs::buffer_error>([&] { zeroing.compress(constant, x.u, x.v); }),
               ContainsSubstring("zero_gradient"));
    std::vector<gs::bfloat16> copy(50);
    gs::slice<decltype(optimizer)> with_copy(x.w, x.g, x.u, x.v);
    with_copy.bfloat16_copy = copy;
    std::string const no_copy =
        "slice.bfloat16_copy: is set, and the rule sends gradients, and moves only some weights of a "
        "tensor; expected empty";
    CHECK(refusal<gs::value_error>([&] { step.compress(with_copy); }) == no_copy);
    CHECK(refusal<gs::value_error>([&] { step.apply(with_copy, list{good, good}); }) == no_copy);
    CHECK(refusal<gs::value_error>([&] { dense(with_copy); }) == no_copy);
    CHECK(x == before);
    step.apply(x.w, list{good, good});
    CHECK_FALSE(x == before);
}

TEST_CASE("Options of dgc_momentum out of their range are refused by name", "[core][compression]") {
    auto const refused = [](gs::dgc_momentum const& rule) {
        return refusal<gs::value_error>([&] { gs::make_updater<float>(rule, gs::constant{1}); });
    };
    CHECK(refused({.mu = 1}) == "dgc_momentum.mu: 1 is out of range; expected [0, 1)");
    CHECK(refused({.rampup_begin_step = -1}) == "dgc_momentum.rampup_begin_step: -1 is out of range; expected >= 0");
    CHECK(refused({.rampup_step = 0}) == "dgc_momentum.rampup_step: 0 is out of range; expected >= 1");
    CHECK(refused({.sparsity = {}}) == "dgc_momentum.sparsity: is empty; expected one number at least");
    CHECK(refused({.sparsity = {0.5, 1}}) == "dgc_momentum.sparsity[1]: 1 is out of range; expected [0, 1)");
    CHECK(refused({.sparsity = {-0.1}}) == "dgc_momentum.sparsity[0]: -0.1 is out of range; expected [0, 1)");
    CHECK(refused({.sparsity = {0.9, 0.5}}) ==
          "dgc_momentum.sparsity[1]: 0.5 is out of range; expected at least 0.9, the sparsity before it");
    CHECK(refused({.local_grad_clip_norm = 0}) ==
          "dgc_momentum.local_grad_clip_norm: 0 is out of range; expected > 0, or infinite");
    CHECK_THAT(refused({.local_grad_clip_norm = std::nan("")}), ContainsSubstring("expected > 0, or infinite"));
    CHECK(refused({.num_trainers = 0}) == "dgc_momentum.num_trainers: 0 is out of range; expected >= 1");
    CHECK(refused({.dense_below = -1}) == "dgc_momentum.dense_below: -1 is out of range; expected >= 0");
    CHECK_THAT(refused({.selected = static_cast<gs::selection>(2)}),
               ContainsSubstring("dgc_momentum.selected: 2 is not allowed; expected exact or sampled"));
    CHECK(gs::describe(gs::dgc_momentum{.sparsity = {0.75, 0.9}}) ==
          "dgc_momentum{mu = 0.9, rampup_begin_step = 0, rampup_step = 1, sparsity = {0.75, 0.9}, nesterov = false, "
          "local_grad_clip_norm = inf, num_trainers = 1, dense_below = 16384, selected = exact}");
}
