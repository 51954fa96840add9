// Where the rows of a table begin: initial values, growing, resetting, and tables of more elements
// than 31 bits count.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <unistd.h>
#endif

#include <gradstep/saved/blob.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;
using floats = std::vector<float>;

auto const optimizer = gs::make_updater<float>(gs::adagrad{.initial_accumulator = 0.1}, gs::proximal{gs::l2{0.01}},
                                               gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 4});
constexpr std::size_t width = 5;

/// Some steps, of rows below `rows`.
template <class Table> void train(Table& table, std::int64_t rows, std::int64_t first, std::int64_t last) {
    for (std::int64_t t = first; t <= last; ++t) {
        ids64 const ids{t * 5 % rows, t * 3 % rows, 0, t * 5 % rows};
        table.update(ids, gradient_numbers<float>(ids.size() * width, t));
    }
}

/// The rows [first, last) of a table, state included.
template <class Table> std::vector<floats> part(Table& table, std::size_t first, std::size_t last) {
    std::vector<floats> out;
    auto const rows = table.memory();
    for (std::size_t r = first; r < last; ++r) {
        for (auto const all : {rows.values, rows.state[0]}) {
            auto const row = row_of(all, r, width);
            out.emplace_back(row.begin(), row.end());
        }
    }
    return out;
}

} // namespace

TEST_CASE("a table begins with its initial values") {
    auto const begun = [](gs::initial_values const& initial) {
        return gs::table{optimizer, 40, width, gs::exact{}, {.initial = initial}};
    };
    auto uniform = begun(gs::uniform{-0.5, 0.25, 7});
    auto const values = uniform.values();
    CHECK(std::ranges::all_of(values, [](float x) { return x >= -0.5f && x <= 0.25f; }));
    CHECK(*std::ranges::min_element(values) < -0.4f); // of 200: missed with probability (13 / 15)^200
    CHECK(*std::ranges::max_element(values) > 0.15f);
    CHECK(uniform.row(3) != uniform.row(4));
    CHECK(begun(gs::uniform{-0.5, 0.25, 7}).row(3) == uniform.row(3));
    CHECK(begun(gs::uniform{-0.5, 0.25, 8}).row(3) != uniform.row(3));

    auto normal = begun(gs::normal{1, 0.5, 7});
    double sum = 0, squares = 0;
    for (float const x : normal.values()) sum += x, squares += (x - 1) * (x - 1);
    CHECK(std::abs(sum / 200 - 1) < 6 * 0.5 / std::sqrt(200.0));               // 6 standard deviations of a mean
    CHECK(std::abs(squares / 200 - 0.25) < 6 * 0.25 * std::sqrt(2.0 / 200.0)); // and of a mean of squares

    CHECK(begun(0.1).row(39) == floats(width, 0.1f));
    CHECK(begun({}).row(39) == floats(width, 0));
    CHECK(std::signbit(begun(-0.0).row(0)[0]));
    auto const given = weight_numbers<float>(40 * width);
    auto from_span = begun(std::span(given));
    CHECK(difference(from_span.values(), std::span(given)) == "");
    for (float const n : from_span.state<"n">()) CHECK(n == 0.1f);

    gs::table mixed{gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{1}),
                    9,
                    3,
                    gs::touch_only{},
                    {.initial = gs::uniform{0, 1, 1}}};
    for (std::size_t i = 0; i < 27; ++i) // the master is what the steps go on from
        CHECK(mixed.state<"master">()[i] == gs::detail::widen(mixed.memory().values[i]));
}

TEST_CASE("a table that grows has the rows of one that was larger from the start") {
    auto const initial = GENERATE(as<gs::initial_values>{}, 0.0, 0.5, gs::uniform{-1, 1, 9}, gs::normal{0, 1, 9});
    gs::table_options const options{.initial = initial, .max_history = 16};
    gs::table large{optimizer, 100, width, gs::exact{}, options};

    gs::table from_nothing{optimizer, 0, width, gs::exact{}, options};
    for (auto const rows : {0, 1, 50, 50, 100}) from_nothing.grow(rows);
    CHECK(difference(held(from_nothing), held(large)) == "");

    gs::table grown{optimizer, 40, width, gs::exact{}, options};
    train(grown, 40, 1, 30);
    held const before(grown);
    auto const beginning = part(large, 40, 100);
    grown.grow(100u);
    CHECK(grown.num_rows() == 100);
    CHECK(grown.clock().step == 30);
    CHECK(part(grown, 40, 100) == beginning); // up to date, as they would be if the table began now
    held const after(grown);
    CHECK(difference(std::span(after.values).first(40 * width), std::span(before.values)) == "");
    CHECK(difference(std::span(after.state[0]).first(40 * width), std::span(before.state[0])) == "");
    CHECK(std::equal(before.stamps.begin(), before.stamps.end(), after.stamps.begin()));
    CHECK(std::all_of(after.stamps.begin() + 40, after.stamps.end(), [](std::uint32_t s) { return s == 30; }));
    CHECK(grown.row(99) == beginning[2 * 59]);

    // Old rows go on as if nothing had happened; new ones as rows of a table that begins at step 30
    // do.
    gs::table same{optimizer, 40, width, gs::touch_only{}, options},
        larger{optimizer, 40, width, gs::touch_only{}, options};
    train(same, 40, 1, 30);
    train(larger, 40, 1, 30);
    larger.grow(100);
    train(same, 40, 31, 60);
    train(larger, 40, 31, 60);
    CHECK(part(larger, 0, 40) == part(same, 0, 40));
    CHECK(part(larger, 40, 100) == beginning);
    train(larger, 100, 61, 90);
    gs::table late{optimizer, 100, width, gs::touch_only{}, options};
    gs::row_progress at = late.progress();
    at.clock.step = 60;
    late.restore(at);
    train(late, 100, 61, 90);
    CHECK(part(larger, 40, 100) == part(late, 40, 100));
}

TEST_CASE("rows of several segments need the columns of the row_updater that they are given to") {
    constexpr std::size_t wide = 64, rows = 50'000;
    auto const grown = [&](gs::table_options const& options) {
        gs::table table{optimizer, 40'000, wide, gs::exact{}, options};
        table.grow(rows);
        REQUIRE(table.segments() > 1);
        return table;
    };
    auto plain = grown({}), counting = grown({.row_steps = true});
    ids64 const ids{0, 49'999};
    floats const g(ids.size() * wide, 0.5f);
    gs::row_updater of_plain{optimizer, rows, wide, gs::exact{}},
        of_counting{optimizer, rows, wide, gs::exact{}, {.row_steps = true}},
        of_fewer{optimizer, rows - 1, wide, gs::exact{}};
    auto const refused = [&](auto& by, auto& table) {
        auto const said = refusal<gs::size_error>([&] { by.update(table.binding(), ids, g); });
        CHECK(by.clock().step == 0);
        CHECK(table.row(49'999) == floats(wide));
        return said;
    };
    auto const in_first = std::to_string(plain.memory(0).values.size() / wide);
    CHECK(refused(of_counting, plain) == "touches: has 0 elements; expected " + in_first);
    CHECK(refused(of_plain, counting) == "touches: has " + in_first + " elements; expected 0");
    CHECK(refused(of_fewer, plain) == "segments: there are 50000 rows; expected 49999");
    of_plain.update(plain.binding(), ids, g);
    CHECK(plain.row(49'999) != floats(wide));
}

namespace {

/// Steps, reads, resets and a flush on a table that was made with all of its rows, and on one that
/// grew to them before its first step: the same bits, while rows lie in several segments.
template <class Element, class Rule, class CatchUp> void grown_equals_whole(Rule const& rule, CatchUp const& catch_up) {
    using storage = typename gs::element_traits<Element>::storage;
    constexpr std::size_t wide = 64, rows = 100'000, k = 300;
    auto const made_by =
        gs::make_updater<Element>(rule, gs::decoupled{0.01}, gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 4});
    bool const counts = std::is_same_v<CatchUp, gs::touch_only>;
    gs::table_options const options{.initial = gs::uniform{-1, 1, 9}, .row_steps = counts, .max_history = 4096};
    gs::table whole{made_by, rows, wide, catch_up, options}, grown{made_by, 40'000, wide, catch_up, options};
    for (int const more : {41'000, 70'000, 75'000, 100'000}) grown.grow(more);
    CHECK(grown.segments() > 1);
    CHECK(whole.segments() == 1);

    for (std::int64_t t = 1; t <= 30; ++t) {
        ids64 ids, offsets{0, 100, 100};
        for (std::size_t p = 0; p < k; ++p)
            ids.push_back((t * 7919 + static_cast<std::int64_t>(p * p * 31)) % static_cast<std::int64_t>(rows));
        auto const g = gradient_numbers<storage>(k * wide, t);
        for (auto* const table : {&whole, &grown}) {
            if (t % 4 == 0) table->update(ids, offsets, std::span(g).first(3 * wide));
            else table->update(ids, g);
            if (t % 10 == 0) table->reset(std::span(ids).first(20));
        }
        std::vector<storage> a(k * wide), b(k * wide);
        whole.rows(ids, a);
        grown.rows(ids, b);
        REQUIRE(difference(std::span<storage const>(a), std::span<storage const>(b)) == "");
        if constexpr (decltype(gs::row_updater{made_by, 1, 1, catch_up})::has_stamps)
            REQUIRE(whole.pending_steps(ids[0] + 1) == grown.pending_steps(ids[0] + 1));
    }
    CHECK(grown.segments() > 1);
    std::size_t first = 0; // the segments, one after the other, are the rows
    for (std::size_t i = 0; i < grown.segments(); ++i) {
        auto const part = grown.memory(i).values;
        REQUIRE(difference(std::span<storage const>(part),
                           std::span<storage const>(whole.memory().values.subspan(first, part.size()))) == "");
        first += part.size();
    }
    CHECK(first == rows * wide);
    auto copy = grown;
    CHECK(copy.segments() == 1);
    CHECK(difference(held(copy), held(whole)) == "");

    std::vector<storage> a(rows * wide), b(rows * wide); // flushes
    whole.copy_to(a);
    grown.copy_to(b);
    CHECK(grown.segments() > 1);
    CHECK(difference(std::span<storage const>(a), std::span<storage const>(b)) == "");
    CHECK(difference(grown.values(), whole.values()) == "");
    CHECK(grown.segments() == 1);
    CHECK(difference(held(grown), held(whole)) == "");
}

} // namespace

TEST_CASE("a table whose rows lie in segments has the bits of one that is whole") {
    grown_equals_whole<float>(gs::adagrad{.initial_accumulator = 0.1}, gs::exact{});
    grown_equals_whole<gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::touch_only{});
}

TEST_CASE("growing 4M x 16 rows stops writers for 6 s: no row is copied, and what is there stays where it is") {
    constexpr std::size_t wide = 64;
    gs::table table{optimizer, 40'000, wide, gs::touch_only{}};
    auto const before = table.values();
    auto const* const n = table.state<"n">().data();
    for (int const rows : {40'001, 60'000, 200'000}) {
        table.grow(rows);
        CHECK(table.memory(0).values.data() == before.data());
        CHECK(table.memory(0).state[0].data() == n);
    }
    auto const second = table.memory(1).values;
    table.grow(300'000);
    CHECK(table.memory(1).values.data() == second.data());
    CHECK(table.segments() == 4);
    // Buffers of a call are apart from all segments.
    CHECK_THROWS_AS(table.update(ids64{1}, table.memory(1).values.first(wide)), gs::buffer_error);
    CHECK_THROWS_AS(table.rows(ids64{1}, table.memory(2).values.first(wide)), gs::buffer_error);
    CHECK(table.clock().step == 0);
    auto const& fixed = table;
    CHECK(refusal<gs::value_error>([&] { fixed.state<"n">(); }) ==
          "state: the rows of this table, which is const, lie in 4 segments; expected 1, as after memory()");
    CHECK(table.memory().values.size() == 300'000 * wide);
    CHECK(table.segments() == 1);
    CHECK(fixed.state<"n">().data() == table.state<"n">().data());
    CHECK(fixed.state<"n">().size() == 300'000 * wide);
}

TEST_CASE("grow's new rows start as of now, or as if they had been there from the start") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 9}, .max_history = 64};
    gs::table whole{optimizer, 100, width, gs::exact{}, options}, late{optimizer, 40, width, gs::exact{}, options};
    train(whole, 40, 1, 30);
    train(late, 40, 1, 30);
    auto as_of_now = late;
    late.grow(100, gs::new_rows::since_the_start);
    as_of_now.grow(100);
    gs::table const fresh{optimizer, 100, width, gs::exact{}, options};
    for (std::int64_t id = 40; id < 100; ++id) {
        CHECK(late.row(id) == whole.row(id)); // in one piece each
        CHECK(late.row(id) != fresh.row(id));
        CHECK(as_of_now.row(id) == fresh.row(id));
    }
    CHECK(late.memory().stamps[99] == 30);

    // A linear rule needs all steps in its history.
    auto const momentum = gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.01}, gs::constant{0.25});
    gs::table moving{momentum, 40, width, gs::exact{}, {.max_history = 16}};
    train(moving, 40, 1, 20);
    held const before(moving);
    CHECK_THROWS_AS(moving.grow(100, gs::new_rows::since_the_start), gs::value_error);
    CHECK(difference(held(moving), before) == "");

    gs::table lazy{optimizer, 40, width, gs::touch_only{}, options};
    train(lazy, 40, 1, 30);
    lazy.grow(100, gs::new_rows::since_the_start);
    CHECK(lazy.row(70) == fresh.row(70));
}

TEST_CASE("rows beyond initial values that were given are zero") {
    gs::table table = [] {
        auto const given = weight_numbers<float>(4 * width); // which are not there any more when the table grows
        return gs::table{optimizer, 4, width, gs::exact{}, {.initial = given}};
    }();
    train(table, 4, 1, 3);
    table.grow(7);
    CHECK(table.row(4) == floats(width, 0));
    CHECK(table.row(6) == floats(width, 0));
    CHECK(table.state<"n">()[6 * width] == 0.1f);
    table.reset(ids64{0});
    CHECK(table.row(0) == floats(width, 0));
}

TEST_CASE("reset rows are as a new table has them") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 9}, .max_history = 16};
    gs::table fresh{optimizer, 40, width, gs::exact{}, options}, table{optimizer, 40, width, gs::exact{}, options};
    train(table, 40, 1, 50);
    held const before(table);
    ids64 const ids{39, 0, 7, 7};
    table.reset(ids);
    for (std::size_t r = 0; r < 40; ++r) {
        bool const reset = std::ranges::find(ids, static_cast<std::int64_t>(r)) != ids.end();
        CAPTURE(r);
        if (reset) {
            CHECK(part(table, r, r + 1) == part(fresh, r, r + 1));
            CHECK(table.row(static_cast<std::int64_t>(r)) == fresh.row(static_cast<std::int64_t>(r)));
            CHECK(table.memory().stamps[r] == 50);
        } else {
            CHECK(difference(row_of(table.memory().values, r, width), row_of(before.values, r, width)) == "");
            CHECK(difference(row_of(table.memory().state[0], r, width), row_of(before.state[0], r, width)) == "");
            CHECK(table.memory().stamps[r] == before.stamps[r]);
        }
    }
    CHECK(table.clock().step == 50);
    table.reset(ids64{});

    auto const adam = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::constant{0.25});
    gs::table counted{adam, 3, 2, gs::touch_only{}, {.initial = 0.75, .row_steps = true}};
    held const first(counted);
    for (int t = 0; t < 3; ++t)
        counted.update(ids64{1, 2}, std::vector<gs::bfloat16>(4, gs::bfloat16(static_cast<float>(t + 1))));
    CHECK(counted.memory().touches[1] == 3);
    counted.reset(std::vector<std::uint64_t>{2, 1});
    CHECK(difference_of_rows(held(counted), first) == "");
}

namespace {

/// A table whose rows change, beside one that has the remaining rows at their places from the
/// start.
template <class Element, class Rule, class CatchUp>
void changed_equals_placed(Rule const& rule, CatchUp const& catch_up, std::size_t wide) {
    using storage = typename gs::element_traits<Element>::storage;
    constexpr std::size_t rows = 24, added = 3;
    constexpr bool counts = std::is_same_v<CatchUp, gs::touch_only>;
    auto const made_by =
        gs::make_updater<Element>(rule, gs::decoupled{0.01}, gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 4});
    std::vector<std::size_t> sources; // of the rows that remain, at their last places
    std::vector<bool> mask(rows);
    for (std::size_t r = 0; r < rows; ++r)
        if ((mask[r] = r % 4 != 1)) sources.push_back(r);
    std::vector<int> order(sources.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>((i * 7 + 3) % order.size());
    auto const kept = std::exchange(sources, {});
    for (int const from : order) sources.push_back(kept[static_cast<std::size_t>(from)]);
    std::size_t const remain = sources.size();

    gs::table_options const options{.row_steps = counts};
    gs::table changed{made_by, 0, wide, catch_up, options};
    auto const beginning = weight_numbers<storage>(rows * wide), more = weight_numbers<storage>(added * wide, 7);
    changed.append(std::span(beginning).first(16 * wide));
    changed.append(std::span(beginning).subspan(16 * wide));
    CHECK(changed.segments() == (counts ? 1 : 2));
    std::vector<storage> placed_values;
    for (std::size_t const r : sources) {
        auto const row = row_of(beginning, r, wide);
        placed_values.insert(placed_values.end(), row.begin(), row.end());
    }
    if (counts) placed_values.insert(placed_values.end(), more.begin(), more.end()); // touch_only: they wait
    gs::table placed{made_by,
                     placed_values.size() / wide,
                     wide,
                     catch_up,
                     {.initial = std::span<storage const>(placed_values), .row_steps = counts}};

    // Both get the same gradients for the same rows, some of which come twice, and others never.
    auto const step = [&](std::int64_t t, auto const& row_in_changed) {
        ids64 before, after;
        for (std::size_t k = 0; k < 3; ++k) {
            auto const i = (static_cast<std::size_t>(t) * 3 + k * k * 5) % (remain - 4);
            before.push_back(static_cast<std::int64_t>(row_in_changed(i)));
            after.push_back(static_cast<std::int64_t>(i));
        }
        auto const g = gradient_numbers<storage>(3 * wide, t);
        changed.update(before, g);
        placed.update(after, g);
    };
    for (std::int64_t t = 1; t <= 4; ++t) step(t, [&](std::size_t i) { return sources[i]; });
    changed.keep(mask);
    CHECK(changed.num_rows() == remain);
    changed.permute(order);
    CHECK(difference_of_rows(held(changed), held(placed)) == (counts ? "tables of different size" : ""));
    changed.append(more);
    if (!counts) {
        placed.grow(remain + added);
        std::ranges::copy(more, placed.memory().values.end() - static_cast<std::ptrdiff_t>(more.size()));
    }
    CHECK(difference_of_rows(held(changed), held(placed)) == "");
    for (std::int64_t t = 5; t <= 8; ++t) step(t, [](std::size_t i) { return i; });
    CHECK(difference_of_rows(held(changed), held(placed)) == ""); // with pending steps
    if constexpr (decltype(gs::row_updater{made_by, 1, 1, catch_up})::has_stamps)
        CHECK(changed.pending_steps(static_cast<std::int64_t>(remain) - 1) == 8);
    CHECK(difference(changed.values(), placed.values()) == "");
}

} // namespace

TEST_CASE("rows that were kept, moved and appended are those of a table that had them from the start") {
    changed_equals_placed<double>(gs::momentum{}, gs::exact{}, 1 << 15); // a page has 16 of these rows
    changed_equals_placed<gs::mixed<gs::bfloat16>>(gs::rowwise_adam{}, gs::touch_only{}, 21);
}

TEST_CASE("rows that come after others were removed, copies of a table's own rows, and a checkpoint after changes") {
    gs::table_options const options{.initial = gs::uniform{-1, 1, 9}, .max_history = 16};
    gs::table fresh{optimizer, 40, width, gs::exact{}, options}, table{optimizer, 40, width, gs::exact{}, options};
    train(table, 40, 1, 5);
    std::vector<unsigned char> mask(40);
    mask[3] = mask[38] = 1;
    floats const first = table.row(3), second = table.row(38);
    table.keep(mask);
    CHECK(table.row(0) == first);
    CHECK(table.row(1) == second);
    table.grow(30); // into memory that other rows had
    CHECK(part(table, 2, 30) == part(fresh, 2, 30));
    CHECK(table.memory().stamps[29] == 5);
    table.flush();
    table.append(table.values().first(2 * width)); // moves this memory
    CHECK(table.row(30) == first);
    CHECK(table.row(31) == second);
    CHECK(table.state<"n">()[31 * width] == 0.1f);
    table.append(floats{});
    CHECK(table.num_rows() == 32);

    std::vector<std::byte> saved(gs::state_bytes(table));
    gs::save_state(table, saved);
    gs::table loaded{optimizer, 1, width, gs::exact{}};
    gs::load_state(loaded, saved);
    CHECK(difference(held(loaded), held(table)) == "");
    table.keep(std::vector<bool>(32));
    CHECK(table.num_rows() == 0);
    CHECK(table.values().empty());
}

TEST_CASE("changes of rows that are refused change nothing") {
    auto const averaging = gs::make_updater<float>(gs::averaged{gs::adagrad{}, gs::ema{0.75}}, gs::constant{0.25});
    gs::table table{averaging, 3, 2, gs::exact{}, {.initial = 1.0}};
    table.update(ids64{1}, floats{1, 2});
    held const before(table);
    CHECK(refusal<gs::size_error>([&] { table.append(floats(5)); }) ==
          "append: 5 values; expected a multiple of 2, the width of a row");
    CHECK(refusal<gs::buffer_error>([&] { table.append(std::span<float>(static_cast<float*>(nullptr), 4)); }) ==
          "append: values is null; expected 4 elements of memory");
    CHECK(refusal<gs::size_error>([&] { table.keep(std::vector<bool>(2)); }) ==
          "keep: the mask has 2 elements; expected 3");
    CHECK(refusal<gs::size_error>([&] {
              table.permute(ids64{0, 1});
          }) == "permute: the order has 2 elements; expected 3");
    CHECK(refusal<gs::value_error>([&] {
              table.permute(ids64{0, 1, 3});
          }) == "permute: element 2 is 3; expected a row in [0, 3)");
    CHECK(refusal<gs::value_error>([&] {
              table.permute(ids64{2, 1, 2});
          }) == "permute: row 2 is in the order twice; expected each row once");
    {
        auto const applied = table.apply_average();
        CHECK_THROWS_AS(table.append(floats(2)), gs::sequence_error);
        CHECK_THROWS_AS(table.keep(std::vector<bool>(3)), gs::sequence_error);
        CHECK_THROWS_AS(table.permute(ids64{0, 1, 2}), gs::sequence_error);
    }
    CHECK(difference(held(table), before) == "");
}

#if defined(__linux__) &&                                                                                              \
    defined(__OPTIMIZE__) // else the vectors' loops over all elements are there, empty as they are
TEST_CASE("a table of more than 2^31 elements", "[huge]") {
    auto const resident = [] {
        std::ifstream file("/proc/self/statm");
        std::size_t all = 0, pages = 0;
        file >> all >> pages;
        return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    };
    constexpr std::size_t num_rows = std::size_t{1} << 22, wide = 640; // 5.4 GB, of which almost nothing is touched
    static_assert(num_rows * wide > std::size_t{1} << 31);
    auto const sgd = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{0.5});
    [[maybe_unused]] std::size_t const before = resident();
    gs::table table = [&] {
        try {
            return gs::table{sgd, num_rows, wide};
        } catch (gs::memory_error const&) {
            WARN("left out: the system does not give 5.4 GB of addresses");
            return gs::table{sgd, 0, wide};
        }
    }();
    if (table.num_rows() == 0) return;

    // The rows around 2^31 and 2^32 bytes, where a narrower counter would wrap, and the last.
    ids64 const ids{0,
                    (1 << 30) / 640 + 1,
                    (std::int64_t{1} << 31) / 640,
                    (std::int64_t{1} << 31) / 640 + 1,
                    num_rows - 2,
                    num_rows - 1};
    std::vector<gs::bfloat16> g(ids.size() * wide);
    for (std::size_t r = 0; r < ids.size(); ++r)
        std::fill_n(g.begin() + static_cast<std::ptrdiff_t>(r * wide), wide, gs::bfloat16(static_cast<float>(r + 1)));
    table.update(ids, g);
    for (std::size_t r = 0; r < ids.size(); ++r)
        CHECK(table.row(ids[r]) == std::vector(wide, gs::bfloat16(-0.5f * static_cast<float>(r + 1))));
    for (std::int64_t const id : {ids[1] + 1, ids[2] - 1, ids[4] - 1})
        CHECK(table.row(id) == std::vector(wide, gs::bfloat16(0.0f)));
    std::vector<gs::bfloat16> expected(wide, gs::bfloat16(-3.0f));
    CHECK(std::ranges::equal(table.memory().values.last(wide), expected));
#if !defined(GRADSTEP_SANITIZED) // whose shadow memory is resident too
    // Each of the rows lies in at most two huge pages of 2 MiB.
    CHECK(resident() - before < (2 * (ids.size() + 3) + 8) * (std::size_t{2} << 20));
#endif
}
#endif
