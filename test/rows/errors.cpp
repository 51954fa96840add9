// What a table refuses, and that it is then as it was.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;
using floats = std::vector<float>;

constexpr double quiet_nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
constexpr std::size_t num_rows = 8, width = 3;

auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::decoupled{0.5}, gs::constant{0.25});

/// A table with state, stamps and history in the middle of a run, and a copy that gets no wrong
/// call.
class victim {
public:
    explicit victim(gs::duplicates kind = gs::duplicates::sum)
        : table(optimizer, num_rows, width, gs::exact{}, {.duplicates = kind, .max_history = 8}), untouched(table) {
        for (std::int64_t t = 1; t < 12; ++t) step(t);
    }

    /// That f(table) is refused with this text and an `Error`, leaves no trace, and that the table
    /// works on.
    template <class Error, class Std = std::invalid_argument, class F>
    void refuses(std::string const& text, F const& f) {
        CHECK(refusal<Error, Std>([&] { f(table); }) == text);
        is_untouched();
    }
    void is_untouched() {
        CHECK(difference(held(table), held(untouched)) == "");
        step(table.clock().step + 1);
        CHECK(difference(held(table), held(untouched)) == "");
    }

    gs::table<std::remove_const_t<decltype(optimizer)>, gs::exact> table, untouched;

private:
    void step(std::int64_t t) {
        ids64 const ids{t % 8, (t + 3) % 8};
        for (auto* each : {&table, &untouched})
            each->update(ids, gradient_numbers<float>(2 * width, t), {.samples = 3});
    }
};

} // namespace

TEST_CASE("ids and gradients that do not fit") {
    victim v;
    floats const six(6);
    auto const update = [&](ids64 ids, auto const& gradients) {
        return [&gradients, ids](auto& table) { table.update(ids, gradients); };
    };
    v.refuses<gs::size_error>("gradient_rows: has 6 elements; expected 3 ids x width 3", update({1, 2, 3}, six));
    v.refuses<gs::size_error>("gradient_rows: has 6 elements; expected 1 ids x width 3", update({1}, six));
    v.refuses<gs::size_error>("gradient_rows: has 6 elements; expected 0 ids x width 3", update({}, six));
    floats const seven(7);
    v.refuses<gs::size_error>("gradient_rows: has 7 elements; expected 2 ids x width 3", update({1, 2}, seven));
    std::span<float const> const nothing(static_cast<float const*>(nullptr), 6);
    v.refuses<gs::buffer_error>("gradient_rows: is null; expected 6 elements of memory", update({1, 2}, nothing));

    v.refuses<gs::value_error>("ids[1]: -1 is out of range; expected [0, 8)", update({0, -1}, six));
    v.refuses<gs::value_error>("ids[0]: 8 is out of range; expected [0, 8)", update({8, -1}, six));
    v.refuses<gs::value_error>("ids[1]: 9223372036854775807 is out of range; expected [0, 8)",
                               update({7, std::numeric_limits<std::int64_t>::max()}, six));
    v.refuses<gs::value_error>("ids[1]: -9223372036854775808 is out of range; expected [0, 8)",
                               update({7, std::numeric_limits<std::int64_t>::min()}, six));
    v.refuses<gs::value_error>("ids[0]: 18446744073709551615 is out of range; expected [0, 8)", [&](auto& table) {
        table.update(std::vector<std::uint64_t>{~std::uint64_t{0}, 1}, six);
    });
    v.refuses<gs::value_error>("ids[1]: -2147483648 is out of range; expected [0, 8)", [&](auto& table) {
        table.update(std::vector<std::int32_t>{1, std::numeric_limits<std::int32_t>::min()}, six);
    });
    // A number of 64 bits whose low half is a row.
    v.refuses<gs::value_error>("ids[0]: 4294967297 is out of range; expected [0, 8)",
                               update({(std::int64_t{1} << 32) + 1, 1}, six));
    v.refuses<gs::buffer_error>("ids: is null; expected 2 elements of memory", [&](auto& table) {
        table.update(std::span(static_cast<std::int64_t const*>(nullptr), 2), six);
    });

    gs::table padded{optimizer, num_rows, width, gs::exact{}, {.ignore_id = -7}};
    CHECK(refusal<gs::value_error>([&] {
              padded.update(ids64{-7, -1}, six);
          }) == "ids[1]: -1 is out of range; expected [0, 8) or ignore_id = -7");
    CHECK(padded.clock().step == 0);
}

TEST_CASE("offsets that do not fit") {
    victim v;
    floats const bags(6);
    auto const update = [&](ids64 offsets) {
        return [&, offsets](auto& table) { table.update(ids64{1, 2, 2, 5}, offsets, bags); };
    };
    v.refuses<gs::value_error>("offsets[0]: 1 is out of range; expected 0", update({1, 2}));
    v.refuses<gs::value_error>("offsets[0]: -1 is out of range; expected 0", update({-1, 2}));
    v.refuses<gs::value_error>("offsets[2]: 2 is out of range; expected at least offsets[1] = 3", update({0, 3, 2}));
    v.refuses<gs::value_error>("offsets[1]: -4 is out of range; expected at least offsets[0] = 0", update({0, -4}));
    v.refuses<gs::value_error>("offsets[1]: 5 is out of range; expected at most 4, the number of ids", update({0, 5}));
    v.refuses<gs::value_error>("offsets[2]: 3 is out of range; expected 4, the number of ids", update({0, 1, 3}));
    v.refuses<gs::size_error>("offsets: has 1 entries; expected 2 or 3, since bag_rows has 2 rows", update({0}));
    v.refuses<gs::size_error>("offsets: has 4 entries; expected 2 or 3, since bag_rows has 2 rows",
                              update({0, 1, 2, 4}));
    v.refuses<gs::size_error>("gradient_rows: has 5 elements; expected 1 bags x width 3",
                              [&](auto& table) { table.update(ids64{1}, ids64{0}, floats(5)); });
    v.refuses<gs::size_error>("ids: has 2 elements, and there is no bag; expected 0 elements", [&](auto& table) {
        table.update(ids64{1, 2}, ids64{}, floats{});
    });
    v.refuses<gs::value_error>("ids[2]: 8 is out of range; expected [0, 8)", [&](auto& table) {
        table.update(ids64{1, 2, 8}, ids64{0, 1}, bags);
    });
    v.refuses<gs::buffer_error>("ids: is null; expected 2 elements of memory", [&](auto& table) {
        table.update(ids64{1, 2}, std::span(static_cast<std::int64_t const*>(nullptr), 2), bags);
    });
}

TEST_CASE("options of a step that are out of range") {
    victim v;
    auto const update = [](gs::step_options const& options) {
        return [options](auto& table) { table.update(ids64{1, 1}, floats(6, 1), options); };
    };
    for (double const bad : {quiet_nan, inf, -inf}) {
        CHECK_THROWS_AS(update({.gradient_scale = bad})(v.table), gs::value_error);
        v.is_untouched();
        CHECK_THROWS_AS(update({.rate_scale = bad})(v.table), gs::value_error);
        v.is_untouched();
        CHECK_THROWS_AS(update({.rate = bad})(v.table), gs::value_error);
        v.is_untouched();
    }
    v.refuses<gs::value_error>("step_options.rate: -1 is out of range; expected finite and >= 0", update({.rate = -1}));
    v.refuses<gs::value_error>("step_options.samples: -1 is out of range; expected >= 0", update({.samples = -1}));
    v.refuses<gs::value_error>("step_options.gradient_scale: 1e+39 is out of range; expected at most "
                               "3.4028234663852886e+38, the largest number of the "
                               "element's arithmetic",
                               update({.gradient_scale = 1e39}));
    v.refuses<gs::value_error>("decoupled: lr * rate = 2 * 0.5; expected < 1, or the weight changes its sign",
                               update({.rate = 2}));
    v.refuses<gs::buffer_error>("gradient_rows: is const, and zero_gradient is set; expected writable memory",
                                [](auto& table) {
                                    floats const constant(6, 1);
                                    table.update(ids64{1, 1}, constant, {.zero_gradient = true});
                                });
    floats g(6, 1); // refused, so not zeroed
    v.refuses<gs::value_error>("ids[1]: 8 is out of range; expected [0, 8)", [&](auto& table) {
        table.update(ids64{1, 8}, g, {.zero_gradient = true});
    });
    CHECK(g == floats(6, 1));
}

TEST_CASE("a duplicate under unique") {
    victim v(gs::duplicates::unique);
    std::string const text =
        " appears before, at position 0; expected distinct ids, since duplicates is unique; sum adds "
        "their gradients";
    v.refuses<gs::value_error>("ids[2]: 7" + text, [](auto& table) { table.update(ids64{7, 1, 7}, floats(9)); });
    v.refuses<gs::value_error>("ids[1]: 2" + text, [](auto& table) {
        table.update(ids64{2, 2}, ids64{0, 1}, floats(6));
    });
}

TEST_CASE("gradients inside the table") {
    victim v;
    v.refuses<gs::buffer_error>("gradient: overlaps values; expected separate memory for each buffer", [](auto& table) {
        table.update(ids64{1, 2}, table.memory().values.subspan(9, 6));
    });
    v.refuses<gs::buffer_error>("gradient: overlaps values; expected separate memory for each buffer",
                                [](auto& table) { table.update(ids64{1}, ids64{0}, table.memory().values.last(3)); });
}

TEST_CASE("readers that ask for what is not there") {
    victim v;
    v.refuses<gs::value_error>("ids[0]: 8 is out of range; expected [0, 8)", [](auto& table) { table.row(8); });
    v.refuses<gs::value_error>("ids[0]: -1 is out of range; expected [0, 8)", [](auto& table) { table.row(-1); });
    floats out(3, 7), longer(4), all_but_one(23);
    v.refuses<gs::size_error>("out: has 4 elements; expected 1 ids x width 3",
                              [&](auto& table) { table.row(1, longer); });
    v.refuses<gs::size_error>("out: has 3 elements; expected 2 ids x width 3", [&](auto& table) {
        table.rows(ids64{1, 2}, out);
    });
    v.refuses<gs::size_error>("copy_to: the buffer has 23 elements; expected 24",
                              [&](auto& table) { table.copy_to(all_but_one); });
    v.refuses<gs::value_error>("ids[1]: 8 is out of range; expected [0, 8)", [](auto& table) {
        table.reset(ids64{0, 8});
    });
    CHECK_THROWS_AS(v.table.row(9, out), gs::value_error);
    CHECK(out == floats(3, 7));
}

TEST_CASE("tables that cannot be") {
    auto const make = [](auto rows, auto columns, gs::table_options const& options = {}) {
        return gs::table{optimizer, rows, columns, gs::exact{}, options};
    };
    CHECK(refusal<gs::value_error>([&] { make(8, 0); }) == "width: 0 is out of range; expected >= 1");
    CHECK(refusal<gs::value_error>([&] { make(8, -3); }) == "width: -3 is out of range; expected >= 1");
    CHECK(refusal<gs::value_error>([&] { make(-1, 3); }) == "num_rows: -1 is out of range; expected >= 0");
    CHECK(refusal<gs::value_error>([&] { make(~std::uint64_t{0}, 3); }) ==
          "num_rows: 18446744073709551615 is out of range; expected < 2^63");
    CHECK(refusal<gs::size_error>([&] { make(std::int64_t{1} << 60, 1 << 20); }) ==
          "num_rows: 1152921504606846976 rows of width 1048576 have more elements than can be counted; expected fewer "
          "rows");
    CHECK(refusal<gs::value_error>([&] { make(8, 3, {.max_history = -1}); }) ==
          "table_options.max_history: -1 is out of range; expected >= 0");
    CHECK(refusal<gs::value_error>([&] { make(8, 3, {.max_history = (std::int64_t{1} << 30) + 1}); }) ==
          "table_options.max_history: 1073741825 is out of range; expected at most 1073741824");
    CHECK(refusal<gs::value_error>([&] { gs::table(optimizer, 8, 3, gs::replay{0}); }) ==
          "replay.max_steps: 0 is out of range; expected >= 1");
    CHECK_THROWS_AS(gs::table(optimizer, 8, 3, gs::replay{}), gs::value_error);
    CHECK_THROWS_AS(gs::table(optimizer, 8, 3, gs::replay{5}, {.row_steps = true}), gs::value_error);

    CHECK(refusal<gs::size_error>([&] { make(8, 3, {.initial = floats(23)}); }) ==
          "initial: has 23 elements; expected 8 rows of width 3; give one for each element");
    CHECK(refusal<gs::size_error>([&] { make(8, 3, {.initial = floats(27)}); }) ==
          "initial: has 27 elements; expected 8 rows of width 3; give one for each element");
    CHECK(refusal<gs::value_error>([&] { make(8, 3, {.initial = std::vector<double>(24)}); }) ==
          "initial: holds double; expected float, which the table stores");
    CHECK_THROWS_AS(make(8, 3, {.initial = gs::uniform{1, -1}}), gs::value_error);
    CHECK_THROWS_AS(make(8, 3, {.initial = gs::normal{0, -1}}), gs::value_error);
    CHECK_THROWS_AS(make(8, 3, {.initial = quiet_nan}), gs::value_error);
    for (double const bad : {quiet_nan, inf, -1.0}) {
        CHECK_THROWS_AS(gs::make_updater<float>(gs::adagrad{.epsilon = bad}, gs::constant{1}), gs::value_error);
        CHECK_THROWS_AS(gs::make_updater<float>(gs::sgd{}, gs::decoupled{bad}, gs::constant{1}), gs::value_error);
        CHECK_THROWS_AS(gs::make_updater<float>(gs::sgd{}, gs::constant{bad}), gs::value_error);
    }
}

TEST_CASE("memory that the system does not give") {
    constexpr auto too_many = std::int64_t{1} << 45; // x 3 elements of 8 bytes: more than there are addresses
    std::string const text = "num_rows: a table of 35184372088832 rows of width 3 needs 844424930131968 bytes, which "
                             "the system does not give";
    victim v;
    CHECK(refusal<gs::memory_error, std::runtime_error>([] {
              gs::table{optimizer, too_many, width, gs::exact{}};
          }) == text);
    v.refuses<gs::memory_error, std::runtime_error>(text, [](auto& table) { table.grow(too_many); });
    CHECK(v.table.num_rows() == num_rows);
    v.refuses<gs::size_error>(
        "num_rows: 9223372036854775807 rows of width 3 have more elements than can be counted; expected fewer rows",
        [](auto& table) { table.grow(std::numeric_limits<std::int64_t>::max()); });
    v.refuses<gs::value_error>("num_rows: 7 is out of range; expected >= 8", [](auto& table) { table.grow(7); });
    v.refuses<gs::value_error>("num_rows: -1 is out of range; expected >= 8", [](auto& table) { table.grow(-1); });
    v.table.grow(9);
    v.untouched.grow(9);
    v.is_untouched();
}

TEST_CASE("memory of the caller's that does not fit") {
    gs::row_updater rows{optimizer, num_rows, width, gs::exact{}, {.row_steps = true}};
    floats values(24), n(24), fewer(23), more(25);
    std::vector<std::uint32_t> stamps(8), touches(8), short_stamps(7);
    auto const text = [&](auto const& f) { return refusal<gs::size_error>(f); };
    CHECK(text([&] { rows.memory(fewer, n, stamps, touches); }) == "values: has 23 elements; expected 24");
    CHECK(text([&] { rows.memory(values, more, stamps, touches); }) == "n: has 25 elements; expected 24");
    CHECK(text([&] { rows.memory(values, n, short_stamps, touches); }) == "stamps: has 7 elements; expected 8");
    CHECK(text([&] { rows.memory(values, n, stamps, short_stamps); }) == "touches: has 7 elements; expected 8");
    CHECK(text([&] { rows.memory(values, n, stamps); }) == "touches: has 0 elements; expected 8");
    CHECK(refusal<gs::buffer_error>([&] {
              rows.memory(std::span<float>(static_cast<float*>(nullptr), 24), n, stamps, touches);
          }) == "values: is null; expected 24 elements of memory");
    CHECK(refusal<gs::buffer_error>([&] {
              rows.memory(values, n, std::span<std::uint32_t>(static_cast<std::uint32_t*>(nullptr), 8), touches);
          }) == "stamps: is null; expected 8 elements of memory");

    auto const good = rows.memory(values, n, stamps, touches);
    auto bad = good;
    bad.state[0] = bad.state[0].first(23); // checked again by every call
    held const before(good, rows.progress());
    ids64 const ids{1};
    floats const g(3, 1);
    floats out(3);
    CHECK(text([&] { rows.update(bad, ids, g); }) == "n: has 23 elements; expected 24");
    CHECK(text([&] { rows.update(bad, ids, ids64{0}, g); }) == "n: has 23 elements; expected 24");
    CHECK(text([&] { rows.initialize(bad); }) == "n: has 23 elements; expected 24");
    CHECK(text([&] { rows.reset(bad, ids); }) == "n: has 23 elements; expected 24");
    CHECK(text([&] { rows.read(bad, ids, out); }) == "n: has 23 elements; expected 24");
    CHECK(text([&] { rows.flush(bad); }) == "n: has 23 elements; expected 24");
    CHECK(refusal<gs::buffer_error>([&] { rows.read(good, ids, std::span<float>(static_cast<float*>(nullptr), 3)); }) ==
          "out: is null; expected 3 elements of memory");
    CHECK(difference(held(good, rows.progress()), before) == "");
    rows.update(good, ids, g);
    CHECK(rows.clock().step == 1);
}

TEST_CASE("a host's pool that throws") {
    // 20 bytes x 64 an id: batches of several parts; calls of the host are counted.
    constexpr std::size_t wide = 64, rows = 5000, k = 3000;
    int calls = 0, fails_at = -1;
    gs::callback_executor host(4, [&](std::size_t parts, gs::task work) {
        if (calls++ == fails_at) throw std::runtime_error("the host is gone");
        for (std::size_t part = 0; part < parts; ++part) work(part);
    });
    auto const on_host =
        gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{0.5}}, gs::constant{0.25}, gs::simd_backend{host});
    gs::table table{on_host, rows, wide, gs::exact{}, {.initial = 1.0, .max_history = 2}};
    auto const step = [&](auto& to, std::int64_t t) {
        ids64 ids(k);
        for (std::size_t p = 0; p < k; ++p)
            ids[p] = static_cast<std::int64_t>((p + 100 * static_cast<std::size_t>(t)) % rows);
        to.update(ids, gradient_numbers<float>(k * wide, t), {.samples = 2});
    };
    for (std::int64_t t = 1; t < 6; ++t) step(table, t);

    calls = 0;
    auto whole = table;
    step(whole, 6);
    int const calls_of_a_step = calls;
    REQUIRE(calls_of_a_step >= 3); // to group the ids, for the rolling sweep, and to update the rows
    for (fails_at = 0; fails_at < calls_of_a_step; ++fails_at) {
        CAPTURE(fails_at);
        auto wronged = table;
        calls = 0;
        CHECK_THROWS_AS(step(wronged, 6), std::runtime_error);
        if (fails_at + 1 < calls_of_a_step) {
            // Refused before a row had its step: some may have caught up, which changes nothing
            // that a reader sees.
            CHECK(wronged.clock() == gs::clock{.step = 5, .samples = 10});
            step(wronged, 6);
            CHECK(difference(held(wronged), held(whole)) == "");
        } else {
            CHECK(wronged.clock() == gs::clock{.step = 6, .samples = 12}); // parts of it may have happened: it counts
        }
    }
    // Rows that lost their step go on as rows that were absent.
    auto wronged = table;
    calls = 0, fails_at = calls_of_a_step - 1;
    CHECK_THROWS_AS(step(wronged, 6), std::runtime_error);
    auto absent = table;
    absent.update(ids64{}, floats{}, {.samples = 2});
    wronged.flush();
    absent.flush();
    CHECK(difference(held(wronged), held(absent)) == "");
}
