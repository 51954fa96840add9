// What every rule does at the edges: gradient 0, rate 0, no epsilon, NaN and infinity, options of a
// step, resuming.
#include <support/each_rule.hpp>

#include <gradstep/saved/blob.hpp>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

namespace {

using runs::backend;

runs::element const& float_element() { return runs::element_of<float>(); }
std::size_t size() { return 4 * float_element().lanes + 3; }

runs::optimizer simd(runs::rule const& rule) { return rule.on(float_element(), backend::simd); }

block copy_of(block const& x) {
    block out(x.type(), x.size());
    out.assign(x);
    return out;
}
std::string moved(block const& before, block const& now) { return difference(before, now, "weight before and after"); }

bool all_finite(block const& x) {
    auto const values = x.values();
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}
bool all_finite(runs::tensor const& x) {
    return all_finite(x.weight) && std::ranges::all_of(x.state, [](block const& s) { return all_finite(s); });
}

// f(rule), and f of the same without its epsilon.
template <class F> void with_and_without_epsilon(runs::rule const& rule, F const& f) {
    f(rule);
    if (auto const bare = rule.without_epsilon()) {
        CAPTURE(bare->description());
        f(*bare);
    }
}

} // namespace

RULE_TEST_CASE("without gradient from the initial state nothing moves", "[edges]") {
    with_and_without_epsilon(rule, [](runs::rule const& each) {
        auto optimizer = simd(each);
        runs::tensor x(optimizer, size(), 1);
        auto const before = copy_of(x.weight);
        for (double const rate : {0.1, 0.0, 3.0, 0.01}) {
            x.set_gradient(0.0);
            optimizer.next_step({.rate = rate})(x);
            if (!each.decays) CHECK(moved(before, x.weight) == "");
        }
        CHECK(all_finite(x));
    });
}

RULE_TEST_CASE("without gradient a weight stands still, unless its rule carries it on", "[edges]") {
    auto optimizer = simd(rule);
    runs::tensor x(optimizer, size(), 1);
    x.train(optimizer, 5, {.rate = 0.1});
    auto const before = copy_of(x.weight);
    for (double const rate : {0.1, 0.05, 0.0, 2.0}) {
        x.set_gradient(0.0);
        optimizer.next_step({.rate = rate})(x);
        if (!rule.carries) CHECK(moved(before, x.weight) == "");
        CHECK(all_finite(x.weight));
    }
}

RULE_TEST_CASE("a rate of 0 moves no weight", "[edges]") {
    with_and_without_epsilon(rule, [](runs::rule const& each) {
        auto optimizer = simd(each);
        runs::tensor x(optimizer, size(), 1);
        for (int round = 0; round < 3; ++round) {
            if (each.keeps_rates) optimizer.initialize(x);
            auto const before = copy_of(x.weight);
            x.train(optimizer, 4, {.rate = 0});
            CHECK(moved(before, x.weight) == "");
            x.train(optimizer, 1, {.rate_scale = 5, .rate = 0});
            x.train(optimizer, 1, {.rate_scale = 0, .rate = 0.1});
            CHECK(moved(before, x.weight) == "");
            x.train(optimizer, 4, {.rate = 0.05});
            CHECK(all_finite(x.weight));
        }
    });
}

RULE_TEST_CASE("NaN and infinity reach the weight they belong to, and no other unless the rule is row-wise",
               "[edges]") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    std::size_t const n = size();
    auto const optimizer = simd(rule);
    runs::tensor clean(optimizer, n);
    {
        auto copy = optimizer;
        clean.train(copy, 4, {.rate = 0.1});
    }
    for (double const bad : {nan, infinity, -infinity}) {
        for (bool const in_gradient : {true, false}) {
            for (std::size_t const at : {std::size_t{0}, float_element().lanes, n - 2, n - 1}) {
                CAPTURE(bad, in_gradient, at);
                auto copy = optimizer, serial = rule.on(float_element(), backend::serial);
                runs::tensor x(copy, n, 1), y(serial, n);
                for (int k = 0; k < 4; ++k) {
                    auto const spoil = [&](runs::tensor& spoilt, runs::optimizer& by) {
                        auto const step = by.next_step({.rate = 0.1});
                        spoilt.set_gradient(step.number());
                        if (k == 1) (in_gradient ? spoilt.gradient : spoilt.weight).set(at, bad);
                        step(spoilt);
                    };
                    spoil(x, copy);
                    spoil(y, serial);
                }
                bool const stays_finite = rule.bounded && in_gradient && !std::isnan(bad);
                CHECK(std::isfinite(x.weight.get(at)) == stays_finite);
                CHECK(difference(x, y) == "");
                if (!rule.row_wise) {
                    x.weight.set(at, clean.weight.get(at));
                    for (std::size_t s = 0; s < x.state.size(); ++s) x.state[s].set(at, clean.state[s].get(at));
                    CHECK(difference(x, clean) == "");
                }
            }
        }
    }
}

RULE_TEST_CASE(
    "NaN and infinity in the state are not passed over, and reach no other element unless the rule is row-wise",
    "[edges]") {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    std::size_t const n = size();
    auto optimizer = simd(rule), serial = rule.on(float_element(), backend::serial);
    auto const& slots = optimizer.format().slots;
    for (int const before : {0, 9}) // radam does not look at v in its first steps
        for (double const rate : {0.1, 0.0})
            for (std::size_t s = 0; s < slots.size(); ++s)
                for (double const bad : {nan, infinity})
                    for (std::size_t const at : {std::size_t{0}, float_element().lanes, n - 2, n - 1}) {
                        bool const is_row_slot = slots[s].is_row_slot;
                        if (is_row_slot && at != 0) continue;
                        CAPTURE(before, rate, slots[s].name, bad, at);
                        optimizer.seek({});
                        serial.seek({});
                        runs::tensor x(optimizer, n, 1), y(serial, n), clean(optimizer, n);
                        auto const run = [&](runs::tensor& spoilt, runs::optimizer& by, bool spoils) {
                            by.seek({});
                            spoilt.train(by, before, {.rate = 0.1});
                            auto const step = by.next_step({.rate = rate});
                            spoilt.set_gradient(step.number());
                            if (spoils) spoilt.state[s].set(at, bad);
                            double const was = spoilt.weight.get(at);
                            step(spoilt);
                            return was;
                        };
                        double const was = run(x, optimizer, true);
                        run(y, serial, true);
                        run(clean, optimizer, false);
                        CHECK(difference(x, y) == "");

                        auto const of_state = [&](auto const& has) {
                            for (std::size_t k = 0; k < slots.size(); ++k)
                                if (has(x.state[k].get(slots[k].is_row_slot ? 0 : at))) return true;
                            return false;
                        };
                        bool const is_read = std::ranges::count(rule.unread, slots[s].name) == 0;
                        bool const may_be_gone = std::ranges::count(rule.overwritten, slots[s].name) != 0;
                        if (std::isnan(bad)) {
                            CHECK((may_be_gone || of_state([](double value) { return std::isnan(value); })));
                            CHECK(std::isnan(x.weight.get(at)) == is_read);
                        } else if (!may_be_gone && (slots[s].name != rule.inferred || was == 0)) {
                            auto const is_bad = [](double value) { return !std::isfinite(value); };
                            CHECK((of_state(is_bad) || is_bad(x.weight.get(at))));
                        }
                        if (is_row_slot && std::isnan(bad))
                            CHECK(std::ranges::all_of(x.weight.values(), [](double w) { return std::isnan(w); }));
                        if (!rule.row_wise) {
                            x.weight.set(at, clean.weight.get(at));
                            for (std::size_t k = 0; k < slots.size(); ++k) x.state[k].set(at, clean.state[k].get(at));
                            CHECK(difference(x, clean) == "");
                        }
                    }
}

#if defined(__GLIBC__)
RULE_TEST_CASE("a step on regular numbers survives traps of floating-point exceptions, whatever the length",
               "[edges]") {
    constexpr int trapped = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;
    for (runs::element const& element : rule.elements())
        for (auto const backend : element.backends) {
            auto optimizer = rule.on(element, backend);
            for (std::size_t n = 1; n <= 5 * element.lanes; ++n)
                for (std::size_t const offset : {0u, 3u}) {
                    CAPTURE(element.name, n, offset);
                    runs::tensor x(optimizer, n, offset);
                    optimizer.seek({});
                    for (std::int64_t t = 1; t <= 3; ++t) {
                        x.set_gradient(t);
                        std::feclearexcept(trapped);
                        feenableexcept(
                            trapped); // a trap ends the test: kernels restore the flags, which would not tell
                        optimizer.next_step({.rate = 0.1})(x);
                        fedisableexcept(trapped);
                    }
                    CHECK(all_finite(x));
                }
        }
}
#endif

RULE_TEST_CASE("gradient_scale equals a gradient scaled before, zero_gradient empties it", "[edges]") {
    auto optimizer = simd(rule), other = simd(rule);
    runs::tensor scaled(optimizer, size(), 1), expected(other, size(), 2);
    for (int k = 0; k < 3; ++k) {
        double const scale = 1.0 / 3;
        auto const folded = optimizer.next_step({.gradient_scale = scale, .zero_gradient = k != 1, .rate = 0.1});
        auto const plain = other.next_step({.rate = 0.1});
        for (auto* x : {&scaled, &expected}) x->set_gradient(folded.number());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            auto const g = static_cast<float>(expected.gradient.get(i));
            expected.gradient.set(i, g * static_cast<float>(scale));
        }
        folded(scaled);
        plain(expected);
        auto const left = scaled.gradient.values();
        CHECK(std::ranges::all_of(left, [](double g) { return g == 0; }) == (k != 1));
    }
    CHECK(difference(scaled, expected) == "");
}

// By the bytes of gradstep/saved/blob.hpp, which hold what a checkpoint does.
RULE_TEST_CASE("saving and restoring in the middle of a run changes no bit, of every element", "[edges]") {
    gs::step_options const options{.samples = 32, .rate = 0.1, .seed = 3};
    auto const state_of = [](runs::optimizer const& by, runs::tensor& of) {
        gs::detail::saved_state state;
        gs::detail::saved_state_builder to(state);
        by.visit_state(of.view(), to);
        return state;
    };
    for (runs::element const& element : rule.elements()) {
        CAPTURE(element.name);
        auto first = rule.on(element, backend::simd), second = rule.on(element, backend::simd);
        std::size_t const n = 4 * element.lanes + 3;
        runs::tensor x(first, n, 1), y(second, n, 5);
        x.train(first, 7, options);
        y.train(second, 2, options);
        CHECK(first.clock().step == 7);
        CHECK(first.clock().samples == 7 * 32);

        auto const saved = state_of(first, x);
        std::vector<std::byte> bytes(gs::detail::blob_bytes(saved));
        gs::detail::save_blob(saved, bytes);
        auto resume = [&](gs::detail::saved_source const& source) {
            gs::detail::require_same(source, state_of(second, y));
            gs::detail::read_into(source, state_of(second, y));
            second.seek(source.state().clock);
        };
        gs::detail::load_blob(bytes, {&resume, [](void* to, gs::detail::saved_source const& source, bool) {
                                          (*static_cast<decltype(resume)*>(to))(source);
                                          return false;
                                      }});

        x.train(first, 7, options);
        y.train(second, 7, options);
        CHECK(first.clock() == second.clock());
        CHECK(difference(y, x) == "");
    }
}

RULE_TEST_CASE("steps are counted beyond 2^53", "[edges]") {
    constexpr std::int64_t far = (std::int64_t{1} << 53) - 1;
    auto optimizer = simd(rule);
    runs::tensor x(optimizer, size());
    x.train(optimizer, 1, {.rate = 0.1});
    gs::clock at = optimizer.clock(); // with what a rule keeps in it
    at.step = at.samples = far;
    optimizer.seek(at);
    for (std::int64_t k = 1; k <= 4; ++k) {
        auto const step = optimizer.next_step({.samples = 1, .rate = 0.1});
        CHECK(step.number() == far + k);
        x.set_gradient(k);
        step(x);
    }
    CHECK(optimizer.clock().step == far + 4);
    CHECK(optimizer.clock().samples == far + 4);
    CHECK(all_finite(x));
}

RULE_TEST_CASE("a rule does not branch on a pack", "[edges]") {
    auto probe = rule.on(float_element(), backend::probe), packs = simd(rule);
    runs::tensor x(probe, size()), y(packs, size());
    x.train(probe, 3, {.rate = 0.1});
    y.train(packs, 3, {.rate = 0.1});
    CHECK(difference(x, y) == "");
}
