// Rows of parameters whose policies are chosen at run time: the bits of gs::parameter, and rows
// with pending steps.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/runtime.hpp>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr std::size_t width = 3;

gs::optimizer_configuration read(std::string const& rule, std::string const& more = "") {
    return gs::read_optimizer(R"({"rule": {"name": ")" + rule + R"("}, )" + more +
                              R"("schedule": {"name": "constant", "rate": 0.125}})");
}
std::vector<float> floats(gs::any_span const& x) {
    auto const as = x.as<float>();
    return {as.begin(), as.end()};
}
std::vector<std::vector<float>> contents(gs::any_parameter const& x) {
    std::vector<std::vector<float>> out{floats(x.values())};
    for (std::size_t i = 0; i < x.optimizer().slots(); ++i) out.push_back(floats(x.state(i)));
    return out;
}
template <class Updater> std::vector<std::vector<float>> contents(gs::parameter<Updater> const& x) {
    std::vector<std::vector<float>> out{{x.values().begin(), x.values().end()}};
    for (auto const* const name : Updater::state_names) {
        auto const slot = x.state(name);
        out.emplace_back(slot.begin(), slot.end());
    }
    return out;
}

// Calls f with changes of rows and of all values, which the last parameters of a test follow.
template <class F> void for_each_change(F const& f) {
    f([](auto& x) { x.set_values(numbers<float>(x.size(), 4)); });
    f([](auto& x) { x.append(numbers<float>(2 * width, 5)); });
    f([](auto& x) { x.set_values(numbers<float>(x.size(), 8)); });
    f([](auto& x) { x.keep(std::array{false, true, true, false, true, false}); });
    f([](auto& x) { x.permute(std::array{2, 0, 1}); });
    f([](auto& x) { x.reset(std::vector<std::uint32_t>{1}); });
    f([](auto& x) { x.keep(std::vector<bool>{false, true, false}); }); // one row is still a row
    f([](auto& x) { x.append(numbers<float>(width, 6)); });
    f([](auto& x) { x.keep(std::vector<bool>{false, false}); });
    f([](auto& x) { x.append(numbers<float>(2 * width, 7)); });
}
template <class Updater> void same_as_types(Updater const& optimizer, gs::optimizer_configuration const& config) {
    auto const initial = numbers<float>(4 * width, 1);
    gs::parameter expected{optimizer, initial, {.shape = {4, width}}};
    gs::any_parameter of_rows{config, initial, 4, width}, of_shape{config, initial};
    of_shape.set_shape({4, width, 1});
    gs::model net;
    net.add("x", gs::any_parameter{config, initial, 4, width});
    auto const step = [&] {
        auto const g = numbers<float>(expected.size(), 2);
        expected.update(g);
        of_rows.update(g);
        of_shape.update(g);
        net.update({{"x", g}});
    };
    step();
    step();
    for_each_change([&](auto const& change) {
        change(expected);
        change(of_rows);
        change(of_shape);
        change(net.get<gs::any_updater>("x"));
        CHECK(of_rows.rows() == expected.rows());
        CHECK(of_rows.width() == width);
        CHECK(of_shape.shape() == std::vector<std::uint64_t>{expected.rows(), width, 1});
        step();
        for (gs::any_parameter const* const x : {&of_rows, &of_shape, &net.get<gs::any_updater>("x")}) {
            CHECK(contents(*x) == contents(expected));
            CHECK(x->clock() == expected.clock());
        }
    });
}

} // namespace

TEST_CASE("rows of an any_parameter take their state with them, as those of a gs::parameter", "[runtime][rows]") {
    same_as_types(gs::make_updater<float>(gs::averaged{gs::adam{}, gs::ema{}}, gs::constant{0.125}),
                  read("adam", R"("average": {"name": "ema"}, )"));
    same_as_types(gs::make_updater<float>(gs::adafactor{}, gs::constant{0.125}), read("adafactor"));
    same_as_types(gs::make_updater<float>(gs::schedule_free_adam{}, gs::constant{0.125}), read("schedule_free_adam"));
}

TEST_CASE("one row without a shape is a vector", "[runtime][rows]") {
    gs::any_parameter x{read("momentum"), std::vector{1.0f, 2.0f, 3.0f}};
    x.update(std::vector{8.0f, 16.0f, 32.0f});
    x.permute(std::vector{2, 0, 1});
    x.append(std::vector{7.0f});
    CHECK(x.rows() == 1);
    CHECK(contents(x) == std::vector<std::vector<float>>{{-1, 0, 0, 7}, {32, 8, 16, 0}});
    // Rows of one element.
    gs::any_parameter column{read("sgd"), std::vector{1.0f, 2.0f}, 2, 1};
    column.append(std::vector{3.0f});
    CHECK(column.rows() == 3);
    CHECK(column.width() == 1);
}

TEST_CASE("rows with pending steps change as if they were up to date", "[runtime][rows]") {
    auto const config =
        GENERATE(read("sgd", R"("regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact", )"),
                 read("adam", R"("catch_up": {"name": "replay", "max_steps": 20}, )"));
    auto const initial = numbers<float>(5 * width, 1), more = numbers<float>(width, 5);
    // Row 4 of `stays` is the row that `moved` gets later.
    gs::any_parameter moved{config, std::span(initial).first(4 * width), 4, width}, stays{config, initial, 5, width};
    auto const step = [&](std::int64_t id_of_moved, std::int64_t id) {
        auto const g = numbers<float>(width, static_cast<std::uint32_t>(id) + 10);
        moved.update_rows(std::span(&id_of_moved, 1), g);
        stays.update_rows(std::span(&id, 1), g);
    };
    auto const same_rows = [&](std::vector<std::int64_t> const& of_stays) {
        std::vector<std::int64_t> ids(of_stays.size());
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
        std::vector<float> x(ids.size() * width), y(x.size());
        moved.read_rows(ids, x);
        stays.read_rows(of_stays, y);
        CHECK(x == y);
    };
    for (std::int64_t const id : {3, 3, 0, 1}) step(id, id);
    moved.permute(std::array{3, 1, 0, 2});
    stays.flush(); // a row is rounded each time it catches up
    same_rows({3, 1, 0, 2});
    step(2, 0);
    step(0, 3);
    step(1, 1);
    same_rows({3, 1, 0, 2});
    moved.keep(std::array{true, false, true, true});
    moved.append(more);
    auto values = floats(stays.values());
    std::copy(more.begin(), more.end(), values.end() - width);
    stays.set_values(values);
    same_rows({3, 0, 2, 4});
    step(1, 0);
    step(0, 3);
    same_rows({3, 0, 2, 4});
    step(3, 4);
    same_rows({3, 0, 2, 4});
    CHECK(moved.rows() == 4);
    moved.reset(std::vector{3});
    same_rows({3, 0, 2, 4});
    for (std::size_t i = 0; i < moved.optimizer().slots(); ++i)
        CHECK(std::ranges::count(std::span(floats(moved.state(i)).data() + 3 * width, width), 0.0f) == width);
}

TEST_CASE("a change of rows that an any_parameter refuses changes nothing", "[runtime][rows]") {
    auto const initial = numbers<float>(4 * width, 1);
    gs::any_parameter x{read("adam", R"("average": {"name": "ema"}, )"), initial, 4, width};
    x.update(numbers<float>(4 * width, 2));
    auto const before = contents(x);
    auto const value = [](auto const& f) { return refusal<gs::value_error>(f); };
    auto const size = [](auto const& f) { return refusal<gs::size_error>(f); };
    CHECK(size([&] { x.append(numbers<float>(5, 1)); }) ==
          "append: 5 values; expected a multiple of 3, the width of a row");
    CHECK(value([&] { x.append(numbers<double>(3, 1)); }) == "append: the values are of float64; expected float32");
    CHECK(refusal<gs::buffer_error>([&] {
              x.append(gs::any_span(gs::scalar::float32, static_cast<void const*>(nullptr), 3));
          }) == "append: values is null; expected 3 elements of memory");
    CHECK(size([&] { x.keep(std::vector<bool>(5)); }) == "keep: the mask has 5 elements; expected 4");
    CHECK(value([&] {
              x.permute(std::vector{0, 1, 2, 1});
          }) == "permute: row 1 is in the order twice; expected each row once");
    CHECK(value([&] {
              x.reset(std::vector<std::int64_t>{0, 4});
          }) == "reset: element 1 is 4; expected a row in [0, 4)");
    CHECK(value([&] { x.reset(gs::any_span(std::vector{0.5f})); }) ==
          "reset: ids are of float32; expected int32, uint32, int64 or uint64");
    CHECK(value([&] { x.reset(gs::any_span(std::vector<std::uint64_t>{UINT64_MAX})); }) ==
          "ids[0]: 18446744073709551615 is out of range; expected [0, 4)");
    {
        auto const applied = x.apply_average();
        CHECK_THROWS_AS(x.keep(std::vector<bool>(4, true)), gs::sequence_error);
    }
    gs::any_parameter other = x;
    other.set_shape({2, 2, width});
    CHECK(value([&] { other.keep(std::vector<bool>(2)); }) ==
          "keep: a row of the shape has 6 elements, and a row of the parameter 3; expected set_shape with the rows of "
          "the parameter");
    CHECK(contents(x) == before);
    gs::any_parameter one{read("sgd", R"("catch_up": "exact", "regularizer": {"name": "decoupled", "rate": 0.5}, )"),
                          initial};
    CHECK(
        value([&] { one.keep(std::vector<bool>(1)); }) ==
        "keep: the parameter began with one row, and catch_up keeps it as one; expected \"catch_up\": \"touch_only\", "
        "or 0 rows at first and append");

    std::vector<float> w(6), g(6);
    gs::model net;
    net.add("mine", gs::any_updater(read("sgd"), gs::scalar::float32), {w, g, {}});
    net.add("own", gs::any_parameter{read("sgd"), initial, 4, width});
    CHECK(
        value([&] { net.keep({"*"}, std::vector<bool>(6)); }) ==
        "mine: keep: its values and state are in memory of the application; expected a parameter that the model owns");
    std::vector<double> const doubles(width);
    CHECK(value([&] {
              net.append({{"own", doubles}});
          }) ==
          "own: append: the values are of another type than the parameter; expected the type that float has in memory");
    net.append({{"own", numbers<float>(width, 3)}});
    CHECK(net.get<gs::any_updater>("own").rows() == 5);
    auto const own = contents(net.get<gs::any_updater>("own"));
    net.freeze({"own"});
    net.update({{"mine", g}});
    CHECK(contents(net.get<gs::any_updater>("own")) == own);
}

TEST_CASE("rows of one element, and shapes without elements", "[runtime][rows]") {
    std::string const exact = R"("catch_up": "exact", "regularizer": {"name": "decoupled", "rate": 0.5}, )";
    auto const value = [](auto const& f) { return refusal<gs::value_error>(f); };
    gs::any_parameter x{gs::any_updater(read("sgd", exact), gs::scalar::float32), numbers<float>(40, 1), {}, 40, 1};
    x.keep(std::vector<bool>(40, true));
    gs::any_parameter shaped{
        gs::any_updater(read("sgd", exact), gs::scalar::float32), numbers<float>(40, 1), {.shape = {2, 20}}, 40, 1};
    CHECK(value([&] {
              shaped.keep(std::vector{true, false});
          }) ==
          "keep: a row of the shape has 20 elements, and a row of the parameter 1; expected set_shape with the rows of "
          "the parameter");
    shaped.update_rows(std::vector<std::int64_t>{39}, numbers<float>(1, 3));

    gs::any_parameter number{read("adam"), numbers<float>(1, 1)};
    number.set_shape({});
    number.reset(std::vector{0});
    number.permute(std::vector{0});
    CHECK(number.shape() == std::vector<std::uint64_t>{});
    number.append(numbers<float>(2, 1));
    CHECK(number.shape() == std::vector<std::uint64_t>{3});

    gs::any_parameter empty{read("adam"), std::vector<float>{}};
    empty.set_shape({3, 0});
    empty.keep(std::vector<bool>(3));
    CHECK(empty.shape() == std::vector<std::uint64_t>{0, 0});
    CHECK(refusal<gs::size_error>([&] { empty.append(numbers<float>(5, 1)); }) ==
          "append: 5 values; expected none, because a row has no elements");
    empty.update(std::vector<float>{});
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("an any_parameter keeps its rows and pending steps if memory does not suffice", "[runtime][rows]") {
    auto const config = read("sgd", R"("regularizer": {"name": "decoupled", "rate": 0.5}, "catch_up": "exact", )");
    auto const initial = numbers<float>(4 * width, 1), more = numbers<float>(width, 5), g = numbers<float>(width, 6);
    std::vector<std::int64_t> const ids{0};
    for (std::size_t failures = 0;; ++failures) {
        gs::any_parameter x{config, initial, 4, width}, expected{config, initial, 4, width};
        x.update_rows(ids, g);
        expected.update_rows(ids, g);
        expected.flush();
        allocations_until_failure = failures;
        bool failed = false;
        try {
            x.append(more);
        } catch (std::bad_alloc const&) {
            failed = true;
        }
        bool const done = allocations_until_failure != SIZE_MAX;
        allocations_until_failure = SIZE_MAX;
        CHECK(failed != done);
        CHECK(x.rows() == (failed ? 4u : 5u));
        x.flush();
        auto values = floats(x.values());
        values.resize(4 * width);
        CHECK(values == floats(expected.values()));
        if (done) break;
    }
}
#endif

// A step of which a part has run counts: other rows have missed it.
TEST_CASE("a pool that throws in a step of rows that catch up leaves each row with the step or without it",
          "[runtime][rows]") {
    constexpr std::size_t wide = 64, rows = 4000, last = rows - 1;
    int calls = 0, fails_at = -1;
    gs::callback_executor host(4, [&](std::size_t parts, gs::task work) {
        bool const fails = calls++ == fails_at;
        for (std::size_t part = 0; part < (fails ? parts / 2 : parts); ++part) work(part);
        if (fails) throw std::runtime_error("the host is gone");
    });
    auto const text = read("momentum", R"("regularizer": {"name": "decoupled", "rate": 0.125},
                                          "catch_up": {"name": "exact"}, )");
    gs::any_parameter x{text, std::vector<float>(rows * wide, 1.0f), rows, wide};
    std::vector<std::int64_t> most(last);
    std::iota(most.begin(), most.end(), 0);
    auto const gradient = numbers<float>(rows * wide, 1);
    auto const of_most = std::span(gradient).first(last * wide);
    for (int t = 0; t < 3; ++t)
        x.update_rows(std::span(most).first(last - 900 * static_cast<std::size_t>(t)),
                      std::span(gradient).first((last - 900 * static_cast<std::size_t>(t)) * wide));
    auto const values = [](gs::any_parameter& of) { return floats(of.values()); };
    auto missed = x;
    missed.update_rows(std::vector{last}, std::vector<float>(wide, 0.5f));
    x.use_threads(host);
    auto const survives = [&](auto const& step) {
        auto whole = x;
        calls = 0;
        fails_at = -1;
        step(whole);
        int const calls_of_a_step = calls;
        CHECK(calls_of_a_step > 0);
        auto const with = values(whole), without = values(missed);
        for (int at = 0; at < calls_of_a_step; ++at) {
            CAPTURE(at);
            auto wronged = x;
            calls = 0;
            fails_at = at;
            CHECK_THROWS_AS(step(wronged), std::runtime_error);
            fails_at = -1;
            auto const before = x.clock().step;
            if (wronged.clock().step == before) {
                step(wronged); // the second time it is as if it were the first
                CHECK(values(wronged) == with);
                continue;
            }
            CHECK(wronged.clock().step == before + 1);
            auto const now = values(wronged);
            std::size_t wrong = 0;
            for (std::size_t r = 0; r < last; ++r) {
                auto const same = [&](std::vector<float> const& other) {
                    auto const begin = static_cast<std::ptrdiff_t>(r * wide);
                    return std::equal(now.begin() + begin, now.begin() + begin + std::ptrdiff_t{wide},
                                      other.begin() + begin);
                };
                wrong += !same(with) && !same(without);
            }
            CHECK(wrong == 0);
        }
    };
    survives([&](gs::any_parameter& of) { of.update_rows(most, of_most); });
    survives([&](gs::any_parameter& of) { of.update(gradient); });
}

TEST_CASE("the optimizer of rows with a history can have another schedule, and no other numbers", "[runtime][rows]") {
    auto const text = [](double rate, double mu, char const* catch_up) {
        return gs::read_optimizer(R"({"rule": {"name": "momentum", "mu": )" + std::to_string(mu) +
                                  R"(}, "regularizer": {"name": "decoupled", "rate": 0.125}, "catch_up": {"name": ")" +
                                  catch_up + R"("}, "schedule": {"name": "constant", "rate": )" + std::to_string(rate) +
                                  "}}");
    };
    std::vector<float> const initial(4 * width, 1.0f), g(width, 0.5f);
    std::vector<int> const ids{2};
    auto const made = [&](double rate, double mu, char const* catch_up = "exact") {
        gs::any_parameter out{text(rate, mu, catch_up), initial, 4, width};
        out.update_rows(ids, g);
        return out;
    };
    auto const updater = [&](double rate, double mu, char const* catch_up, gs::clock at) {
        gs::any_updater out{text(rate, mu, catch_up), gs::scalar::float32};
        out.seek(at);
        return out;
    };
    auto x = made(0.25, 0.5), of_types_numbers = made(0.25, 0.5);
    x.optimizer() = updater(0.125, 0.5, "exact", x.clock());
    x.update_rows(ids, g);
    of_types_numbers.update_rows(ids, g, {.rate = 0.125});
    CHECK(floats(x.values()) == floats(of_types_numbers.values()));
    x.update_rows(ids, g);
    of_types_numbers.update_rows(ids, g, {.rate = 0.125});

    x.optimizer() = updater(0.125, 0.75, "exact", x.clock());
    auto const before = x.clock();
    CHECK(refusal<gs::value_error>([&] {
              x.update_rows(ids, g);
          }).starts_with("optimizer: was replaced, and rows that catch up have a history"));
    CHECK(x.clock() == before);
    CHECK(refusal<gs::value_error>([&] { x.save("/unsaved.safetensors"); }).starts_with("optimizer: was replaced"));
    CHECK(floats(x.values()) == floats(of_types_numbers.values())); // pending steps have the numbers of the history

    // Its clock is at the last step of the history.
    auto y = made(0.25, 0.5);
    y.optimizer().seek({});
    for (auto const& call :
         std::vector<std::function<void()>>{[&] { y.update_rows(ids, g); }, [&] { y.flush(); }, [&] { y.values(); }})
        CHECK(refusal<gs::sequence_error, std::logic_error>(call) ==
              "optimizer: has a clock at step 0, and the history of rows that "
              "catch up ends at step 1; expected a clock at step 1");
    y.optimizer().seek(before);
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] {
              y.flush();
          }).starts_with("optimizer: has a clock at step"));
    y.optimizer().seek({.step = 1});
    CHECK(floats(y.values()) == floats(made(0.25, 0.5).values()));
    y.optimizer().seek(before); // now no row has pending steps
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { y.reset(ids); }).starts_with("optimizer: has a clock"));
    // A load sets the clock.
    folder const in;
    auto const saved = made(0.25, 0.5);
    saved.save(in / "rows.safetensors");
    y.optimizer().seek({});
    y.load(in / "rows.safetensors");
    y.update_rows(ids, g);
    auto expected_of_load = saved;
    expected_of_load.update_rows(ids, g);
    CHECK(floats(y.values()) == floats(expected_of_load.values()));

    // Without a history, the policies of the next step count; rows never begin to catch up.
    auto touched = made(0.25, 0.5, "touch_only");
    touched.optimizer() = updater(0.25, 0.75, "exact", touched.clock());
    touched.update_rows(ids, g);
    auto expected = made(0.25, 0.5, "touch_only");
    expected.optimizer() = updater(0.25, 0.75, "touch_only", expected.clock());
    expected.update_rows(ids, g);
    CHECK(floats(touched.values()) == floats(expected.values()));
}
