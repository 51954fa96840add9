// Weights that other code changes between the steps of an element with a master copy: the step goes
// on from them.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/edited.hpp"
#include "support/numbers.hpp"
#include "support/trainer.hpp"

namespace gs = gradstep;

namespace {

template <class S> S from_bits(std::uint32_t bits) {
    S out;
    out.bits = static_cast<std::uint16_t>(bits);
    return out;
}
std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }

// A tensor in memory of its own, and one in which every outside change is made to the master copy
// as well.
template <class Element, class Rule, class Regularizer, class Backend>
void goes_on_from_changes(Rule const& rule, Regularizer const& regularizer, Backend const& backend, std::size_t n) {
    using updater = decltype(gs::make_updater<Element>(rule, regularizer, gs::constant{0.0625}, backend));
    using storage = typename updater::traits::storage;
    auto optimizer = gs::make_updater<Element>(rule, regularizer, gs::constant{0.0625}, backend);
    struct buffers {
        std::vector<storage> w;
        std::array<std::vector<float>, updater::slots> state;
    };
    buffers edited{numbers<storage>(n, 1), {}}, expected = edited;
    std::vector<storage> g;
    auto const with = [&](buffers& x, auto const& f) {
        std::apply([&](auto&... slots) { f(x.w, slots...); }, x.state);
    };
    for (buffers* x : {&edited, &expected}) {
        for (std::size_t i = 0; i < updater::slots; ++i) x->state[i].resize(updater::slot_size(i, n));
        with(*x, [&](auto& w, auto&... slots) { optimizer.initialize(w, slots...); });
    }
    for (std::uint32_t t = 1; t < 6; ++t) {
        g = numbers<storage>(n, t + 1);
        // A row-wise rule looks at all weights: one that is not finite would make all of them NaN.
        edit<storage>(edited.w, t, !gs::row_wise_rule<Rule>);
        reseed<storage>(edited.w, edited.state.back(), expected.w, expected.state.back());
        auto const step = optimizer.next_step({.gradient_scale = t == 3 ? 0.5 : 1});
        for (buffers* x : {&edited, &expected})
            with(*x, [&](auto& w, auto&... slots) {
                gs::slice<updater> const slice(w, g, slots...);
                step.begin(slice)();
            });
        CHECK(same_bits(edited.w, expected.w));
        for (std::size_t i = 0; i < updater::slots; ++i) CHECK(same_bits(edited.state[i], expected.state[i]));
    }
}

} // namespace

TEMPLATE_TEST_CASE("A pack takes a weight for changed if it has other bits than the rounded master copy",
                   "[core][master_copy]", gs::bfloat16, gs::float16) {
    std::vector<float> masters, stored, expected;
    for (std::uint32_t high = 0; high < 0x1'0000; ++high) {
        auto const at = bits_of(static_cast<float>(from_bits<TestType>(high)));
        for (std::uint32_t const apart : {0x0u, 0x1u, 0xffffu, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
            auto const master = std::bit_cast<float>(at + apart);
            std::uint16_t const rounded = TestType(master).bits;
            for (std::uint32_t const change : {0x0u, 0x1u, 0x3u, 0x40u, 0x200u, 0x8000u, 0xffffu}) {
                auto const weight = from_bits<TestType>(rounded ^ change);
                auto const wide = static_cast<float>(weight);
                bool const is_same = change == 0 && !std::isnan(master);
                masters.push_back(master);
                stored.push_back(wide);
                expected.push_back(is_same ? master : wide);
            }
        }
    }
    auto const differences = [&]<class V>(std::type_identity<V>) {
        using io = gs::pack_traits<V>;
        REQUIRE(masters.size() % io::size == 0);
        alignas(64) float out[64];
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < masters.size(); i += io::size) {
            V const master = io::load(&masters[i], gs::all_lanes{}), weight = io::load(&stored[i], gs::all_lanes{});
            io::store(out, io::template trained<TestType>(master, weight), gs::all_lanes{});
            for (std::size_t k = 0; k < io::size; ++k) wrong += bits_of(out[k]) != bits_of(expected[i + k]);
        }
        return wrong;
    };
    using best = gs::simd<float, gs::detail::best_arch>;
    CHECK(differences(std::type_identity<float>{}) == 0);
    CHECK(differences(std::type_identity<best>{}) == 0);
    CHECK(differences(std::type_identity<gs::lanes<best, 2>>{}) == 0);
    CHECK(differences(std::type_identity<gs::lanes<float, 4>>{}) == 0);
}

TEMPLATE_TEST_CASE(
    "A step goes on from weights that other code has changed, as if their master copies had been changed too",
    "[core][master_copy]", gs::mixed<gs::bfloat16>, gs::mixed<gs::float16>) {
    gs::thread_pool pool(3);
    auto const check = [&](auto const& rule, auto const& regularizer) {
        goes_on_from_changes<TestType>(rule, regularizer, gs::serial_backend{}, 4101);
        goes_on_from_changes<TestType>(rule, regularizer, gs::simd_backend{}, 4101);
        goes_on_from_changes<TestType>(rule, regularizer, gs::simd_backend{pool}, 70'001);
    };
    check(gs::sgd{}, gs::none{});
    check(gs::adam{}, gs::decoupled{0.1});
    check(gs::lamb{}, gs::none{});
    check(gs::averaged{gs::momentum{}, gs::ema{0.5}}, gs::l2{0.1});
}

TEST_CASE("Filled, clamped and copied weights are where the next step begins", "[core][master_copy]") {
    auto optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{1});
    auto const in_bfloat16 = [](float x) { return gs::bfloat16(x); };
    float const small = 0x1p-13f; // less than bfloat16 can tell apart at 1
    std::vector<gs::bfloat16> w(37, in_bfloat16(1)), g(37, in_bfloat16(small));
    std::vector<float> master(37);
    optimizer.initialize(w, master);
    optimizer.next_step()(w, g, master);
    CHECK(static_cast<float>(w[0]) == 1);
    REQUIRE(master[0] == 1 - small);

    // Writing the value that a weight has already looks like no write: the master copy keeps its
    // digits.
    std::vector<gs::bfloat16> const copy = w;
    w = copy;
    optimizer.next_step()(w, g, master);
    CHECK(master[0] == 1 - 2 * small);

    std::fill(w.begin(), w.end(), in_bfloat16(5));
    optimizer.next_step()(w, g, master);
    for (std::size_t i = 0; i < w.size(); ++i) {
        CHECK(static_cast<float>(w[i]) == 5);
        CHECK(master[i] == 5 - small);
    }
    for (auto& x : w) x = in_bfloat16(std::clamp(static_cast<float>(x), -0.5f, 0.5f));
    optimizer.next_step()(w, g, master);
    for (float const x : master) CHECK(x == 0.5f - small);

    // NaN stays until other code writes a number, with the bits that the weight has; a zero of the
    // other sign is another weight.
    for (float& x : master) x = std::bit_cast<float>(0x7fc1'2345u);
    for (auto& x : w) x.bits = 0x7fc1;
    optimizer.next_step({.rate = 0})(w, g, master);
    for (std::size_t i = 0; i < w.size(); ++i) {
        CHECK(w[i].bits == 0x7fc1);
        CHECK(std::bit_cast<std::uint32_t>(master[i]) == 0x7fc1'0000u);
    }
    for (float& x : master) x = std::bit_cast<float>(0x7fff'ffffu); // as CUDA's: rounded as a number it would be -0
    std::fill(w.begin(), w.end(), in_bfloat16(-0.0f));
    std::vector<gs::bfloat16> const zeros(37);
    optimizer.next_step()(w, g, master);
    for (float const x : master) CHECK(x == -small);
    for (float& x : master) x = 0;
    std::fill(w.begin(), w.end(), in_bfloat16(-0.0f));
    optimizer.next_step()(w, zeros, master);
    for (auto const x : w) CHECK(x.bits == 0x8000);
}

TEST_CASE("A compressed step decays and moves weights that other code has changed", "[core][master_copy]") {
    using element = gs::mixed<gs::bfloat16>;
    for (std::int64_t const trainers : {1, 2}) {
        auto optimizer = gs::make_updater<element>(
            gs::dgc_momentum{.rampup_begin_step = 2, .sparsity = {0.9}, .num_trainers = trainers, .dense_below = 8},
            gs::l2{0.5}, gs::constant{0.0625});
        trainer<element> edited(2003), expected(2003);
        edited.initialize(optimizer);
        expected.initialize(optimizer);
        for (std::uint32_t t = 1; t < 7; ++t) { // the first is dense
            edited.g = expected.g = numbers<gs::bfloat16>(2003, t);
            edit<gs::bfloat16>(edited.w, t, false);
            std::vector<gs::bfloat16> const before = edited.w;
            reseed<gs::bfloat16>(edited.w, edited.master, expected.w, expected.master);
            auto const step = optimizer.next_step();
            for (auto* x : {&edited, &expected}) {
                if (trainers == 1) {
                    x->update(step);
                } else {
                    auto const message = x->compress(step);
                    x->apply(step, std::vector{message, message});
                }
            }
            CHECK(same_bits(edited.w, expected.w));
            CHECK(same_bits(edited.u, expected.u));
            CHECK(same_bits(edited.v, expected.v));
            std::size_t wrong = 0; // where no message moves a weight its master copy waits
            for (std::size_t i = 0; i < before.size(); ++i)
                wrong += edited.w[i].bits != before[i].bits && edited.master[i] != expected.master[i];
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("Averages in the place of weights are no change of them, and weights that were changed before come back",
          "[core][master_copy]") {
    gs::averaged const rule{gs::sgd{}, gs::window{.rate = 1, .min = 2, .max = 2}};
    auto const optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(rule, gs::constant{0.0625});
    using updater = std::remove_const_t<decltype(optimizer)>;
    struct buffers {
        std::vector<gs::bfloat16> w = numbers<gs::bfloat16>(99, 1), g = w;
        std::array<std::vector<float>, updater::slots> state;
        explicit buffers(updater const& by) {
            for (auto& s : state) s.resize(99);
            by.initialize(slice());
        }
        gs::slice<updater> slice() {
            return std::apply([&](auto&... slots) { return gs::slice<updater>(w, g, slots...); }, state);
        }
    };
    buffers edited(optimizer), expected(optimizer);
    gs::model net, other;
    net.add("w", optimizer, edited.slice());
    other.add("w", optimizer, expected.slice());
    for (std::uint32_t t = 1; t < 5; ++t) {
        auto const g = numbers<gs::bfloat16>(99, t + 1);
        for (buffers* x : {&edited, &expected})
            std::copy(g.begin(), g.end(), x->g.begin()); // which the slices refer to
        edit<gs::bfloat16>(edited.w, t);
        reseed<gs::bfloat16>(edited.w, edited.state.back(), expected.w, expected.state.back());
        auto const trained = edited.w;
        CHECK(same_bits(net.average("w"), other.average("w"))); // before the first step these are the weights
        {
            auto const applied = net.apply_average();
            if (t > 2) CHECK_FALSE(same_bits(edited.w, trained));
            CHECK(same_bits(net.average("w"), other.average("w")));
            CHECK_THROWS_AS(net.update(), gs::sequence_error);
            edited.w[3] = gs::bfloat16(77.0f); // in the average, which goes
        }
        CHECK(same_bits(edited.w, trained));
        net.update();
        other.update();
        CHECK(same_bits(edited.w, expected.w));
        for (std::size_t i = 0; i < updater::slots; ++i) CHECK(same_bits(edited.state[i], expected.state[i]));
    }
}

TEMPLATE_TEST_CASE("The average of a parameter is of its trained weights, also while others stand in their place",
                   "[core][master_copy]", float, gs::mixed<gs::bfloat16>) {
    gs::averaged const rule{gs::sgd{}, gs::window{.rate = 1, .min = 2, .max = 2}};
    using storage = typename gs::element_traits<TestType>::storage;
    auto const initial = numbers<storage>(99, 1);
    gs::parameter weights{gs::make_updater<TestType>(rule, gs::constant{0.5}), initial};
    auto const average = weights.average();
    auto const applied = weights.apply_average(std::vector<float>(99, 7.0f));
    CHECK(same_bits(weights.average(), average));
}
