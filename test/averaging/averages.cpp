// The averages over a run: where windows close, what is in the sums, and averages in the weights'
// place.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/window_counters.hpp"

namespace gs = gradstep;

namespace {

template <class T> std::vector<T> copy(std::span<T const> x) { return {x.begin(), x.end()}; }

// The window average as Paddle's optimizer runs it, counter by counter.
template <class T> struct literal_window {
    gs::window policy;
    std::vector<T> sum_1, sum_2, sum_3;
    window_counters counters;

    literal_window(gs::window const& of, std::size_t n) : policy(of), sum_1(n), sum_2(n), sum_3(n) {}
    void add(std::span<T const> w) {
        for (std::size_t i = 0; i < w.size(); ++i) sum_1[i] += w[i];
        if ((counters.num_updates + 1) % 16384 == 0)
            for (std::size_t i = 0; i < w.size(); ++i) {
                sum_2[i] += sum_1[i];
                sum_1[i] = 0;
            }
        if (counters.count(policy))
            for (std::size_t i = 0; i < w.size(); ++i) {
                sum_3[i] = sum_1[i] + sum_2[i];
                sum_1[i] = sum_2[i] = 0;
            }
    }
    std::vector<T> average() const {
        std::vector<T> out(sum_1.size());
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = (sum_1[i] + sum_2[i] + sum_3[i]) /
                     static_cast<T>(counters.num_accumulates + counters.old_num_accumulates);
        return out;
    }
};

} // namespace

TEST_CASE("windows close where the counters of a literal loop close them", "[core][averages]") {
    struct limits {
        std::int64_t min, max;
    };
    for (double const rate : {1.0, 0.999, 0.5, 1.0 / 3, 0.15, 0.1, 0.01, 1e-3, 1e-5, 1e-9, 0.99999999})
        for (limits const l : {limits{1, 1},
                               {1, 2},
                               {1, 1000},
                               {1, 10'000'000},
                               {2, 3},
                               {7, 7},
                               {100, 1000},
                               {1000, 1'000'000},
                               {10'000, 10'000},
                               {16384, 16384},
                               {10'000, 20'000}}) {
            gs::window const policy{.rate = rate, .min = l.min, .max = l.max};
            CAPTURE(rate, l.min, l.max);
            window_counters literal;
            std::int64_t start = 0, before = 0, wrong = 0;
            constexpr std::int64_t steps = 1'000'000;
            for (std::int64_t t = 1; t <= steps; ++t) {
                bool const closes = literal.count(policy);
                if (closes) {
                    before = start;
                    start = t;
                }
                // A walk for every step of a million would take minutes: those around the ends of
                // windows, and some more.
                if (!closes && t % 997 != 0 && t != start + 1 && t < steps) continue;
                auto const at = policy.at(t);
                wrong += at.start != start || at.before != before;
                wrong += t - at.start != literal.num_accumulates || at.start - at.before != literal.old_num_accumulates;
                if (start - before < 50 && t > 20'000) break; // short windows: millions of ends
            }
            CHECK(wrong == 0);
        }
}

TEST_CASE("a window far into a run is found without walking there", "[core][averages]") {
    // Windows of min steps follow each other to step min / rate, windows of max from max / rate on.
    gs::window const constant{.rate = 0.5, .min = 10, .max = 10};
    CHECK(constant.at(1'000'000'000'000'007).start == 1'000'000'000'000'000);
    CHECK(constant.at(1'000'000'000'000'007).before == 999'999'999'999'990);
    gs::window const small{.rate = 1e-18, .min = 1, .max = 5};
    CHECK(small.at(1'000'000'000'000).start == 1'000'000'000'000);
    gs::window const wide{.rate = 1, .min = 1, .max = std::int64_t{1} << 40};
    CHECK(wide.at(std::int64_t{1} << 41).start == (std::int64_t{1} << 40) + 1);
    CHECK(wide.at((std::int64_t{1} << 41) + 1).start == (std::int64_t{1} << 41) + 1);
    // Shares that no run reaches, and windows without an end.
    gs::window const never{.rate = 1e-15, .min = 10'000, .max = 20'000}, tiny{.rate = 1e-300, .min = 1, .max = 1000};
    CHECK(never.at(123'456'789).start == 123'450'000);
    CHECK(tiny.at(std::int64_t{1} << 61).start == std::int64_t{1} << 61);
    gs::window const whole{.rate = 1, .max = std::numeric_limits<std::int64_t>::max()};
    CHECK(whole.at(1'000'000'000'000).start == 10'000);
    // In any order, and of policies that take turns.
    gs::window const growing{.rate = 0.01, .min = 3, .max = 1000}, steady{.rate = 0.01, .min = 7, .max = 7};
    std::vector<std::int64_t> ends;
    for (std::int64_t t = 1; t <= 20'000; ++t)
        if (growing.at(t).start == t) ends.push_back(t);
    for (std::size_t k = ends.size(); k-- > 1;) {
        CHECK(steady.at(ends[k]).start == ends[k] / 7 * 7);
        CHECK(growing.at(ends[k] + 1).start == ends[k]);
        CHECK(growing.at(ends[k] - 1).start == ends[k - 1]);
        CHECK(growing.at(ends[k]).before == ends[k - 1]);
    }
}

TEMPLATE_TEST_CASE("the sums of a window are those of a literal loop, to the bit", "[core][averages]", float, double) {
    std::size_t const n = 37;
    for (gs::window const policy :
         {gs::window{.rate = 0.15, .min = 3, .max = 50}, gs::window{.rate = 1, .min = 20'000, .max = 30'000},
          gs::window{.rate = 0.5, .min = 16384, .max = 16384}}) {
        gs::parameter x{
            gs::make_updater<TestType>(gs::averaged{gs::momentum{}, policy}, gs::l2{0.01}, gs::constant{1e-3}),
            numbers<TestType>(n, 1)};
        literal_window<TestType> literal(policy, n);
        CHECK(same_bits(x.average(), numbers<TestType>(n, 1))); // of no step: the weights
        std::size_t wrong = 0;
        for (std::uint32_t t = 1; t <= 33'000; ++t) {
            // Options that take another form of the step, and steps that leave the rare sums alone
            // or do not.
            x.update(numbers<TestType>(n, t), {.gradient_scale = t % 3 == 0 ? 0.5 : 1});
            literal.add(x.values());
            if (t % 1000 > 2 && t > 200) continue;
            wrong += !same_bits(copy(x.template state<"sum_1">()), literal.sum_1);
            wrong += !same_bits(copy(x.template state<"sum_2">()), literal.sum_2);
            wrong += !same_bits(copy(x.template state<"sum_3">()), literal.sum_3);
            wrong += !same_bits(x.average(), literal.average());
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("sums that are folded keep their digits over a million weights", "[core][averages]") {
    // The weights do not change, so every rounding of a binade goes the same way.
    std::int64_t const steps = 1'000'000;
    std::vector<float> const w{0.1f, 0.3f, 0.7f, 0.9f, 0.63f}, g(w.size());
    gs::window const whole_run{.rate = 1, .min = 2 * steps, .max = 2 * steps};
    gs::parameter x{gs::make_updater<float>(gs::averaged{gs::sgd{}, whole_run}, gs::constant{0}, gs::serial_backend{}),
                    w};
    std::vector<float> plain(w.size());
    for (std::int64_t t = 1; t <= steps; ++t) {
        x.update(g);
        for (std::size_t i = 0; i < w.size(); ++i) plain[i] += w[i];
    }
    // A sum of k numbers of one sign is off by k / 2 roundings of itself at most: 16384 in a fold,
    // 61 folds, then the sums of both, the number of steps and the division.
    long double const allowed = (16384 / 2 + 61 / 2 + 4) * 0x1p-24L;
    auto const average = x.average();
    for (std::size_t i = 0; i < w.size(); ++i) {
        CHECK(std::abs(average[i] - static_cast<long double>(w[i])) <= allowed * w[i]);
        CHECK(std::abs(plain[i] / static_cast<float>(steps) - w[i]) > 2 * allowed * w[i]); // one sum is not enough
    }
}

TEST_CASE("most steps of a window leave two of its three sums alone", "[core][averages]") {
    auto optimizer = gs::make_updater<float>(gs::averaged{gs::adam{}, gs::window{.rate = 0.5, .min = 4, .max = 4}},
                                             gs::constant{1e-3});
    auto const plain = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    CHECK(optimizer.bytes_per_element == plain.bytes_per_element + 8);
    CHECK(optimizer.state_bytes(1) == 20);
    std::vector<float> w(40, 1), g(40, 1), m(40), v(40), sum_1(40), sum_2(40, 5), sum_3(40, 6);
    for (int t = 1; t <= 3; ++t) {
        optimizer.next_step({.gradient_scale = t == 2 ? 2.0 : 1.0})(w, g, m, v, sum_1, sum_2, sum_3);
        CHECK(sum_2 == std::vector<float>(40, 5));
        CHECK(sum_3 == std::vector<float>(40, 6));
    }
    auto const before = sum_1;
    optimizer.next_step()(w, g, m, v, sum_1, sum_2, sum_3);
    CHECK(sum_1 == std::vector<float>(40, 0));
    CHECK(sum_2 == std::vector<float>(40, 0));
    for (std::size_t i = 0; i < 40; ++i) CHECK(sum_3[i] == before[i] + w[i] + 5); // what was in sum_2 is in the window
}

TEST_CASE("a uniform average is the mean of the weights from its start on", "[core][averages]") {
    std::size_t const n = 33;
    std::int64_t const start = 10, steps = 400;
    gs::parameter x{gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::polyak{start}}, gs::constant{0.01}),
                    numbers<float>(n, 1)};
    std::vector<long double> sum(n);
    for (std::int64_t t = 1; t <= steps; ++t) {
        x.update(numbers<float>(n, static_cast<std::uint32_t>(t)));
        if (t <= start) {
            CHECK(same_bits(x.average(), copy(x.values())));
            continue;
        }
        auto const average = x.average();
        auto const k = static_cast<long double>(t - start);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
            sum[i] += x.values()[i];
            // A step rounds the difference, 1 / k and the result, all of numbers below 4, and the
            // errors of the steps before weigh (k - 1) / k: k / 2 + 2 times u * 4 at most.
            wrong += std::abs(average[i] - sum[i] / k) > (k / 2 + 2) * 4 * 0x1p-24L;
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("an average that begins is the weight, whatever it was before", "[core][averages]") {
    auto const begins_with_the_weight = [](auto const& average) {
        // 1 -> 2^-30 (where the product of the step is not rounded): the difference of the two
        // rounds to -1.
        gs::parameter x{gs::make_updater<float>(gs::averaged{gs::sgd{}, average}, gs::constant{1 + 0x1p-15}),
                        std::vector<float>(19, 1.0f)};
        x.update(std::vector<float>(19));
        x.update(std::vector<float>(19, 1 - 0x1p-15f));
        return same_bits(x.average(), copy(x.values()));
    };
    CHECK(begins_with_the_weight(gs::polyak{1}));
    CHECK(begins_with_the_weight(gs::polyak{2}));
    CHECK(begins_with_the_weight(gs::ema{0.9, true, 1}));
    CHECK(begins_with_the_weight(gs::ema{0.9, false, 2}));
}

TEST_CASE("an exponential average may begin later, and forget its beginning", "[core][averages]") {
    std::size_t const n = 17;
    for (bool const debias : {false, true}) {
        double const decay = 0.75;
        std::int64_t const start = 5;
        gs::parameter x{
            gs::make_updater<double>(gs::averaged{gs::sgd{}, gs::ema{decay, debias, start}}, gs::constant{0.1}),
            numbers<double>(n, 1)};
        std::vector<long double> sum(n); // of (1 - decay) * decay^(t - s) * w_s
        for (std::int64_t t = 1; t <= 60; ++t) {
            x.update(numbers<double>(n, static_cast<std::uint32_t>(t)));
            auto const average = x.average();
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < n; ++i) {
                long double const w = x.values()[i];
                if (t <= start) {
                    wrong += average[i] != x.values()[i];
                    sum[i] = debias ? 0 : w;
                    continue;
                }
                sum[i] = sum[i] * decay + (1 - decay) * w;
                long double const expected = debias ? sum[i] / (1 - std::pow(decay, t - start)) : sum[i];
                // Each step rounds its factor, the product and the sum, and weighs `decay` of the
                // steps after it.
                wrong += std::abs(average[i] - expected) > 4 / (1 - decay) * 4 * 0x1p-53L;
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("averages go on from their sums and the clock alone", "[core][averages]") {
    auto const go_on = [](auto const& average) {
        auto optimizer = gs::make_updater<float>(gs::averaged{gs::sgd{}, average}, gs::constant{0.01});
        using state = std::array<std::vector<float>, decltype(optimizer)::slots>;
        auto const step = [](auto& of, std::vector<float>& w, state& s, std::uint32_t t) {
            std::apply([&](auto&... slot) { of.next_step()(w, numbers<float>(50, t), slot...); }, s);
        };
        std::vector<float> w = numbers<float>(50, 1), w2;
        state s, s2;
        for (auto& slot : s) slot.resize(50);
        std::apply([&](auto&... slot) { optimizer.initialize(w, slot...); }, s);
        for (std::uint32_t t = 1; t <= 40; ++t) {
            if (t == 23) {
                w2 = w;
                s2 = s;
            }
            step(optimizer, w, s, t);
        }
        auto again = optimizer;
        again.seek({.step = 22});
        for (std::uint32_t t = 23; t <= 40; ++t) step(again, w2, s2, t);
        CHECK(same_bits(w, w2));
        for (std::size_t i = 0; i < s.size(); ++i) CHECK(same_bits(s[i], s2[i]));
    };
    go_on(gs::window{.rate = 0.3, .min = 2, .max = 9});
    go_on(gs::polyak{7});
    go_on(gs::ema{0.9, true, 3});
}

TEMPLATE_TEST_CASE("the average takes the weights' place, and gives it back bit for bit", "[core][averages]", float,
                   gs::bfloat16, gs::mixed<gs::bfloat16>, gs::stochastic<gs::bfloat16>) {
    using storage = typename gs::element_traits<TestType>::storage;
    std::size_t const n = 1003;
    gs::parameter x{gs::make_updater<TestType>(gs::averaged{gs::adam{}, gs::ema{0.5}}, gs::constant{0.1}),
                    numbers<storage>(n, 1)};
    for (std::uint32_t t = 0; t < 5; ++t) x.update(numbers<storage>(n, 10 + t));
    auto const trained = copy(x.values());
    auto const average = x.average();
    std::vector<storage> rounded(n);
    for (std::size_t i = 0; i < n; ++i) rounded[i] = storage(average[i]);
    CHECK_FALSE(same_bits(rounded, trained));
    {
        auto const applied = x.apply_average();
        CHECK(same_bits(copy(x.values()), rounded));
        CHECK(x.average_is_applied());
        CHECK(same_bits(x.average(), average));
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { static_cast<void>(x.apply_average()); }) ==
              "apply_average: the average is in the place of the weights; expected restore() first");
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { x.update(numbers<storage>(n, 1)); }) ==
              "update: the average is in the place of the weights; expected restore() first");
        CHECK(x.clock().step == 5);
    }
    CHECK_FALSE(x.average_is_applied());
    CHECK(same_bits(copy(x.values()), trained));
    try {
        auto const applied = x.apply_average();
        throw std::runtime_error("in between");
    } catch (std::runtime_error const&) {
    }
    CHECK(same_bits(copy(x.values()), trained));
    x.apply_average().dismiss();
    CHECK(same_bits(copy(x.values()), rounded));
    x.restore();
    CHECK(same_bits(copy(x.values()), trained));
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { x.restore(); }) ==
          "restore: no average is in the place of the weights; expected apply_average() first");
    x.update(numbers<storage>(n, 3));
    CHECK(x.clock().step == 6);
}

TEMPLATE_TEST_CASE("an averager of weights that others update has the bits of the pass of the update",
                   "[core][averages]", float, gs::bfloat16) {
    using storage = typename gs::element_traits<TestType>::storage;
    std::size_t const n = 1003;
    auto const check = [&](auto const& average) {
        gs::parameter folded{gs::make_updater<TestType>(gs::averaged{gs::momentum{}, average}, gs::constant{0.1}),
                             numbers<storage>(n, 1)};
        gs::parameter plain{gs::make_updater<TestType>(gs::momentum{}, gs::constant{0.1}), numbers<storage>(n, 1)};
        gs::averager of_parameter{average, plain};
        std::vector<storage> memory = copy(plain.values());
        gs::averager of_memory{average, memory, gs::serial_backend{}}, resumed{average, memory, gs::serial_backend{}};
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] { of_memory.average(); }) ==
              "average: no weights were added; expected add() first");
        std::size_t wrong = 0;
        for (std::uint32_t t = 0; t < 30; ++t) {
            folded.update(numbers<storage>(n, 10 + t));
            plain.update(numbers<storage>(n, 10 + t));
            of_parameter.add(plain);
            memory = copy(plain.values());
            of_memory.add(memory);
            wrong += !same_bits(of_parameter.average(), folded.average());
            wrong += !same_bits(of_memory.average(), folded.average());
        }
        CHECK(wrong == 0);
        for (std::size_t i = 0; i < average.state_names.size(); ++i)
            std::ranges::copy(of_memory.state(i), resumed.state(i).begin());
        resumed.resume(of_memory.clock());
        of_memory.add(memory);
        resumed.add(memory);
        CHECK(same_bits(resumed.average(), of_memory.average()));
        CHECK(resumed.clock().step == 31);
        {
            auto const applied = plain.apply_average(of_parameter.average());
            std::vector<storage> rounded(n);
            for (std::size_t i = 0; i < n; ++i) rounded[i] = storage(folded.average()[i]);
            CHECK(same_bits(copy(plain.values()), rounded));
            CHECK_THROWS_AS(of_parameter.add(plain), gs::sequence_error);
        }
        CHECK(same_bits(copy(plain.values()), memory));
        CHECK(refusal<gs::size_error>([&] { plain.apply_average(std::vector<float>(3)).dismiss(); }) ==
              "apply_average: 3 averages for 1003 values; expected as many");
        CHECK(refusal<gs::size_error>([&] { of_memory.add(std::vector<storage>(3)); }) ==
              "averager::add: 3 weights; expected 1003");
    };
    check(gs::window{.rate = 0.5, .min = 2, .max = 5});
    check(gs::ema{0.9, true, 3});
    check(gs::polyak{4});
}

TEST_CASE("a model shows the averages of the parameters that keep one", "[core][averages]") {
    auto const averaging = gs::make_updater<float>(
        gs::averaged{gs::momentum{}, gs::window{.rate = 1, .min = 2, .max = 5}}, gs::constant{0.1});
    auto const plain = gs::make_updater<float>(gs::sgd{}, gs::constant{0.1});
    std::vector<float> w = numbers<float>(20, 1), g(20), m(20), s1(20), s2(20), s3(20);
    gs::model net;
    net.add("own", gs::parameter{averaging, numbers<float>(10, 2)});
    net.add("plain", gs::parameter{plain, numbers<float>(10, 3)});
    net.add("host", averaging, {w, g, m, s1, s2, s3});
    for (std::uint32_t t = 0; t < 7; ++t) {
        std::ranges::copy(numbers<float>(20, t), g.begin()); // the model refers to its memory
        net.update({{"own", numbers<float>(10, t)}, {"plain", numbers<float>(10, t)}});
    }
    auto const& own = net.get<decltype(averaging)>("own");
    auto const trained = copy(own.values()), host = w, average = own.average();
    std::vector<float> of_host(20);
    auto at_7 = averaging;
    at_7.seek({.step = 7});
    at_7.average(of_host, w, m, s1, s2, s3);
    CHECK(same_bits(net.average("own"), average));
    CHECK(same_bits(net.average("host"), of_host));
    CHECK(refusal<gs::value_error>([&] { net.average("plain"); }) ==
          "average: plain: keeps no average; expected gs::averaged{...}");
    CHECK_THROWS_AS(net.average("none"), gs::value_error);
    CHECK_THROWS_AS(net.average<double>("own"), gs::value_error);
    {
        auto const applied = net.apply_average();
        CHECK(same_bits(copy(own.values()), average));
        CHECK(same_bits(net.average("own"), average));
        CHECK(same_bits(net.average("host"), of_host));
        CHECK(same_bits(w, of_host));
        CHECK_FALSE(same_bits(w, host));
        CHECK_THROWS_AS(net.update({{"own", g}, {"plain", g}}), gs::error);
        CHECK_THROWS_AS(net.apply_average(), gs::sequence_error);
        CHECK(net.clock("plain").step == 7);
    }
    CHECK(same_bits(copy(own.values()), trained));
    CHECK(same_bits(w, host));
    CHECK_THROWS_AS(net.restore(), gs::sequence_error);
    gs::model without;
    without.add("plain", gs::parameter{plain, numbers<float>(10, 3)});
    CHECK(refusal<gs::value_error>([&] { static_cast<void>(without.apply_average()); }) ==
          "apply_average: no parameter keeps an average; expected gs::averaged{...} in one at least");
}

TEST_CASE("bad numbers of windows and starts are refused by name", "[core][averages]") {
    auto const refused = [](auto const& average) {
        return refusal<gs::value_error>([&] {
            gs::make_updater<float>(gs::averaged{gs::sgd{}, average}, gs::constant{1});
        });
    };
    CHECK(refused(gs::window{}) == "window.rate: is missing; expected a number that is in (0, 1]");
    CHECK(refused(gs::window{.rate = 0}) == "window.rate: 0 is out of range; expected (0, 1]");
    CHECK(refused(gs::window{.rate = 1.5}) == "window.rate: 1.5 is out of range; expected (0, 1]");
    CHECK(refused(gs::window{.rate = 0.5, .min = 0}) == "window.min: 0 is out of range; expected >= 1");
    CHECK(refused(gs::window{.rate = 0.5, .min = 30, .max = 20}) ==
          "window.min: 30 is out of range; expected at most window.max = 20");
    CHECK(refused(gs::polyak{-1}) == "polyak.start: -1 is out of range; expected >= 0");
    CHECK(refused(gs::ema{0.5, false, -1}) == "ema.start: -1 is out of range; expected >= 0");
    CHECK(refusal<gs::value_error>([&] {
              gs::averager{gs::window{}, std::vector<float>(3)};
          }) == "window.rate: is missing; expected a number that is in (0, 1]");
}
