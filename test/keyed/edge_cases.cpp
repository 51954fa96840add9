// Where keyed tables end: keys, rows, options, memory; what is refused, and that nothing has
// changed then; replicas of rows that decay while they are away.
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <new>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/keyed/striped.hpp>
#include <gradstep/keyed_table.hpp>
#include <gradstep/saved/blob.hpp>

#include <support/allocations.hpp>
#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using keys64 = std::vector<std::uint64_t>;
using floats = std::vector<float>;

constexpr std::size_t width = 3;
constexpr std::uint64_t last_key = std::numeric_limits<std::uint64_t>::max();
auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{0.01}},
                                               gs::exponential{.rate = 0.25, .decay = 0.5, .steps = 40});

template <class CatchUp = gs::exact> auto table_of(gs::keyed_options const& options = {}, CatchUp catch_up = {}) {
    return gs::keyed_table{optimizer, width, catch_up, options};
}
floats ones(keys64 const& keys, float x = 1) { return floats(keys.size() * width, x); }
template <class Table> void step(Table& table, keys64 const& keys, float x = 1) { table.update(keys, ones(keys, x)); }

// All that can be seen of a table.
template <class Table> std::string seen(Table const& table) {
    std::string out = std::to_string(table.clock().step) + " " + std::to_string(table.counts().admitted) + " " +
                      std::to_string(table.counts().turned_away) + " " + std::to_string(table.counts().no_room) + " " +
                      std::to_string(table.counts().evicted) + "\n";
    for (std::uint64_t const key : table.keys()) {
        out += std::to_string(key);
        for (float const x : table.row(key)) out += " " + std::to_string(x);
        out += "\n";
    }
    return out;
}

} // namespace

TEST_CASE("the least and the greatest key are keys as any others") {
    auto table = table_of();
    step(table, {0, last_key, 0});
    step(table, {last_key});
    CHECK(table.num_rows() == 2);
    CHECK(table.contains(0));
    CHECK(table.contains(last_key));
    CHECK_FALSE(table.contains(1));
    std::vector<std::int64_t> const by_bits{-1};
    floats out(width);
    table.rows(by_bits, out);
    CHECK(out == table.row(last_key));
    CHECK(table.row(1) == floats(width, 0));
}

TEST_CASE("a row begins in the step that first names it, whatever was before") {
    auto late = table_of({.initial = 1.0}), early = table_of({.initial = 1.0});
    for (int t = 0; t < 50; ++t) step(late, {1});
    step(late, {2});
    // The same step of the schedule, without l2 on what came before: of a table whose row is made
    // for this step.
    gs::table alone{optimizer, 1, width, gs::exact{}, {.initial = 1.0}};
    for (int t = 0; t < 50; ++t) alone.update(keys64{}, floats{});
    alone.reset(keys64{0});
    alone.update(keys64{0}, ones({2}));
    CHECK(late.row(2) == alone.row(0));
    CHECK(late.row(3) == floats(width, 1));
}

TEST_CASE("a key that is not admitted reads as its initial value, and its gradients are counted as dropped") {
    auto table = table_of({.initial = 0.5, .admit_after = 3});
    step(table, {7, 7, 8}); // two appearances of 7
    CHECK(table.num_rows() == 0);
    CHECK(table.row(7) == floats(width, 0.5));
    CHECK(table.counts() == gs::keyed_counts{.turned_away = 3});
    step(table, {7, 8}, 2);
    CHECK(table.contains(7));
    CHECK_FALSE(table.contains(8));
    auto once = table_of({.initial = 0.5});
    step(once, {1, 1});
    step(once, {7}, 2); // the third appearance alone has updated it
    CHECK(table.row(7) == once.row(7));
    CHECK(table.counts() == gs::keyed_counts{.admitted = 1, .turned_away = 4});
}

TEST_CASE("a table that is full turns keys away until rows are evicted") {
    auto table = table_of({.max_rows = 2});
    step(table, {1, 2, 3});
    CHECK(table.num_rows() == 2);
    CHECK(table.counts().no_room == 1);
    CHECK(table.evict([](auto const& row) { return row.key == 1; }) == 1);
    step(table, {3});
    CHECK(table.contains(3));
    CHECK_FALSE(table.contains(1));
    CHECK(table.counts().evicted == 1);
}

TEST_CASE("a key that is ignored gets no row") {
    auto table = table_of({.ignore_key = last_key, .admit_after = 2});
    for (int t = 0; t < 3; ++t) step(table, {last_key, 4});
    CHECK(table.keys() == keys64{4});
    CHECK(table.counts() == gs::keyed_counts{.admitted = 1, .turned_away = 1});
}

TEST_CASE("rows that are held are not evicted") {
    auto table = table_of();
    step(table, {1, 2, 3, 4});
    table.hold(keys64{2, 3, 2, 99});
    table.release(keys64{2});
    CHECK(table.evict_to(0) == 2);
    std::size_t asked = 0;
    CHECK(table.evict([&](auto const&) { return ++asked != 0; }) == 0);
    CHECK(asked == 0); // it may take what is chosen for gone
    CHECK(table.evict_older_than(100) == 0);
    table.release(keys64{2, 99});
    CHECK(table.evict_older_than(100) == 1);
    CHECK(table.keys() == keys64{3});
    CHECK(refusal<gs::value_error>([&] {
              table.release(keys64{3, 2});
          }) == "keys[1]: 2 is not held; expected a key that is held");
    CHECK(refusal<gs::value_error>([&] {
              table.release(keys64{3, 3});
          }) == "keys[1]: 3 is not held; expected a key that is held");
    CHECK(table.evict_to(0) == 0); // 3 is held as before
    table.release(keys64{3});
    CHECK(table.evict_to(0) == 1);
}

TEST_CASE("a row that nobody touches stays old, however many steps there are") {
    bool const steps_between = GENERATE(true, false);
    auto table = table_of({.touch_counts = true}, gs::touch_only{});
    step(table, {1});
    constexpr std::int64_t quarter = std::int64_t{1} << 30;
    for (std::int64_t k = 1; k <= 9; ++k) { // more than 2^32 steps, of which these are made; or none after a jump
        auto none = table.changed_since(table.clock().step);
        none.keys.clear();
        none.values.clear();
        none.until = none.progress.clock.step = k * quarter - 2;
        table.apply(none);
        if (!steps_between) continue;
        for (int t = 0; t < 4; ++t) step(table, {2});
        CHECK(table.changed_since(table.clock().step - quarter / 2).keys == keys64{2});
    }
    if (!steps_between) step(table, {2});
    std::uint32_t age = 0, count = 0;
    table.evict([&](auto const& row) {
        if (row.key == 1) age = row.age;
        else count = row.touch_count;
        return false;
    });
    CHECK(age >= std::uint32_t{1} << 31);
    CHECK(count == (steps_between ? 36 : 1));
    CHECK(table.evict_older_than(table.clock().step - 10) == 1);
    CHECK(table.keys() == keys64{2});
}

TEST_CASE("rows that stay catch up exactly after an eviction, at whatever point of a lap it comes") {
    auto const decaying =
        gs::make_updater<double>(gs::sgd{}, gs::decoupled{0.01}, gs::exponential{.rate = 1, .decay = 0.5, .steps = 50});
    keys64 all(300);
    for (std::uint64_t k = 0; k < all.size(); ++k) all[k] = k;
    for (int when = 0; when < 20; ++when) { // a lap takes 7 steps, and the history keeps 16
        gs::keyed_table table{decaying, 1, gs::exact{}, {.initial = 1.0, .max_history = 16}};
        double right = 1;
        for (int t = 0; t < 40; ++t) {
            table.update(t == 0 ? all : keys64{0}, std::vector<double>(t == 0 ? all.size() : 1));
            right *= 1 - 0.01 * std::pow(0.5, double(t) / 50);
            if (t == when) CHECK(table.evict_to(20) == 280); // the greatest keys, since all are equally old
        }
        // A rounding a step in the product here; in the table one of log a and one of exp, and some
        // at every catch-up.
        double const bound = 40 * 4 * 0x1p-53;
        CAPTURE(when);
        for (std::uint64_t key = 0; key < 20; ++key) CHECK(table.row(key)[0] == Approx(right).epsilon(bound).margin(0));
    }
}

TEST_CASE("changes end at a step to which ages can be added") {
    constexpr std::int64_t latest = std::int64_t{1} << 62;
    auto source = table_of({}, gs::touch_only{}), replica = source;
    step(source, {1});
    auto changes = source.changed_since(0);
    replica.apply(changes);
    step(source, {2});
    step(source, {2}); // row 1 is one step old
    bool const all = GENERATE(true, false);
    changes = source.changed_since(all ? 0 : 1);
    auto const before = seen(replica);
    for (std::int64_t const until : {latest + 1, std::numeric_limits<std::int64_t>::max()}) {
        changes.until = changes.progress.clock.step = until;
        CHECK(refusal<gs::value_error>([&] { replica.apply(changes); }) ==
              "apply: changes until " + std::to_string(until) +
                  "; expected at most 4611686018427387904, which is 2^62");
        CHECK(seen(replica) == before);
    }
    changes.until = changes.progress.clock.step = latest;
    replica.apply(changes);
    step(replica, {1});
    CHECK(replica.clock().step == latest + 1);
}

TEST_CASE("a replica tells one of its own what has changed") {
    auto source = table_of(), replica = table_of(), last = table_of();
    step(source, {1, 2, 3});
    replica.apply(source.changed_since(0));
    last.apply(replica.changed_since(0));
    for (int t = 0; t < 3; ++t) step(source, {2});
    last.apply(source.changed_since(last.clock().step)); // it is at step 4
    step(source, {3});
    source.evict([](auto const& row) { return row.key == 1; });
    replica.apply(source.changed_since(replica.clock().step));
    last.apply(replica.changed_since(last.clock().step));
    CHECK_FALSE(last.contains(1));
    CHECK(last.num_rows() == 2);
    // It does not know the evictions before a replacement of all rows.
    source.evict([](auto const& row) { return row.key == 2; });
    step(source, {3});
    replica.apply(source.changed_since(0));
    CHECK(refusal<gs::value_error>([&] { replica.changed_since(5); }) ==
          "changed_since: step 5, and evictions are remembered from step 6 on; expected that step or a later one, or "
          "0 for all rows");
    last.apply(replica.changed_since(0));
    CHECK(last.keys() == keys64{3});
}

TEST_CASE("a replica of rows that decay has the bits of its source, unless rows of that one were moved") {
    // A row that takes the place of an evicted one is caught up there, and so rounded once more: by
    // 2^-24 each time.
    bool const evicts = GENERATE(false, true);
    float const roundings = evicts ? 9 : 0;
    auto const same = [&](floats const& a, floats const& b) {
        for (std::size_t i = 0; i < width; ++i)
            if (!(std::abs(a[i] - b[i]) <= 2 * roundings * 0x1p-24f * std::abs(a[i]))) return false;
        return true;
    };
    std::mt19937_64 random(3);
    auto source = table_of({.initial = gs::normal{0, 1, 5}, .touch_counts = true}),
         replica = table_of(source.options());
    for (int t = 0; t < 400; ++t) {
        keys64 keys(1 + random() % 5);
        for (auto& key : keys) key = random() % 100 * random() % 100;
        step(source, keys, static_cast<float>(random() % 8) / 8);
        if (evicts && t % 50 == 49) source.evict_older_than(source.clock().step - 60);
        if (random() % 10 != 0) continue;
        replica.apply(source.changed_since(replica.clock().step, gs::row_content::state));
        REQUIRE(replica.num_rows() == source.num_rows());
        for (std::uint64_t const key : source.keys()) {
            REQUIRE(replica.contains(key));
            REQUIRE(same(replica.row(key), source.row(key)));
        }
    }
    // It goes on as the source does, and has the ages and counts.
    replica.apply(source.changed_since(replica.clock().step, gs::row_content::state));
    for (std::uint64_t key = 0; key < 100; ++key) {
        step(source, {key, 5});
        step(replica, {key, 5});
    }
    auto const told = [](auto& table) {
        std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> out;
        table.evict([&](auto const& row) {
            out[row.key] = {row.age, row.touch_count};
            return false;
        });
        return out;
    };
    for (std::uint64_t const key : source.keys()) CHECK(same(replica.row(key), source.row(key)));
    CHECK(told(source) == told(replica));
}

TEST_CASE("changes that do not fit are refused") {
    auto source = table_of({.max_history = 16}), replica = table_of(source.options());
    step(source, {1});
    replica.apply(source.changed_since(0));
    for (int t = 0; t < 9; ++t) step(source, {2});
    auto const before = seen(replica);
    auto const late = source.changed_since(5);
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { replica.apply(late); }) ==
          "apply: the changes are of the steps from 5 to 10, and this table is at step 1; expected one of these");
    CHECK(refusal<gs::value_error>([&] { replica.apply(source.changed_since(1)); }) ==
          "apply: the changes are of 9 steps, and the history serves rows that were inactive for 7; expected no more "
          "steps than that; apply changes more often, or take all rows, since 0");
    auto cut = source.changed_since(0);
    cut.values.pop_back();
    CHECK(refusal<gs::size_error>([&] { replica.apply(cut); }) == "apply: values: has 5 elements; expected 6");
    auto wide = source.changed_since(0);
    wide.width = 4;
    CHECK(refusal<gs::size_error>([&] { replica.apply(wide); }) ==
          "apply: the changes are of rows of width 4; expected 3");
    CHECK(seen(replica) == before);
    CHECK(refusal<gs::value_error>([&] { source.changed_since(11); }) ==
          "changed_since: step 11; expected from 0 to 10, the step of the table");
    auto untracked = table_of({.last_touches = false});
    CHECK(refusal<gs::sequence_error, std::logic_error>([&] { untracked.evict_older_than(1); }) ==
          "evict_older_than: this table does not keep when its rows were touched; expected a table made with "
          "last_touches = true");
}

TEST_CASE("a keyed table refuses what no run can have") {
    auto const refuse = [](gs::keyed_options const& options) {
        return refusal<gs::value_error>([&] { table_of(options); });
    };
    floats const values(width);
    CHECK(refuse({.initial = values}) ==
          "keyed_options.initial: holds values; expected a number, uniform or normal, since keys have no order");
    CHECK(refusal<gs::value_error>([] { table_of().reserve(-1); }) == "rows: -1 is out of range; expected >= 0");
    CHECK(refusal<gs::value_error>([] { table_of().reserve(std::uint64_t{1} << 31); }) ==
          "reserve: rows: 2147483648 is out of range; expected at most 2147483647");
    CHECK(refuse({.max_rows = -1}) == "keyed_options.max_rows: -1 is out of range; expected >= 0");
    CHECK(refuse({.max_rows = std::int64_t{1} << 31}) ==
          "keyed_options.max_rows: 2147483648 is out of range; expected at most 2147483647");
    CHECK(refuse({.sketch_half_life = -1}) == "keyed_options.sketch_half_life: -1 is out of range; expected >= 0");
    CHECK(refuse({.admit_after = 0}) == "keyed_options.admit_after: 0 is out of range; expected >= 1");
    CHECK(refuse({.admit_probability = 0}) == "keyed_options.admit_probability: 0 is out of range; expected (0, 1]");
    CHECK(refuse({.last_touches = false, .touch_counts = true}) ==
          "keyed_options.touch_counts: true is given without last_touches, by which a step counts once; expected "
          "last_touches = true");

    auto table = table_of({.admit_after = 2});
    step(table, {1, 1, 2});
    auto const before = seen(table);
    CHECK(refusal<gs::size_error>([&] { table.update(keys64{2}, floats(2)); }) ==
          "gradient_rows: has 2 elements; expected 1 keys x width 3");
    CHECK(refusal<gs::value_error>([&] {
              table.update(keys64{2}, floats(3), {.rate_scale = -1});
          }).find("rate_scale") != std::string::npos);
    CHECK(seen(table) == before);
    CHECK_FALSE(table.contains(2));
    step(table, {2}); // its appearance in the step that was refused was not counted, or this would have been the third
    CHECK(table.counts() == gs::keyed_counts{.admitted = 2, .turned_away = 2});

    auto unique = table_of({.duplicates = gs::duplicates::unique});
    CHECK(refusal<gs::value_error>([&] {
              step(unique, {5, 9, 5});
          }) == "keys[2]: 5 appears before, at position 0; expected distinct keys, since duplicates is "
                "unique; sum adds their gradients");
    CHECK(refusal<gs::value_error>([&] {
              step(unique, {8, 5, 9, 9, 5, 8});
          }).starts_with("keys[3]: 9 appears before, at position 2;"));
    CHECK(unique.num_rows() == 0);
    CHECK(refusal<gs::value_error>([&] {
              table.evict_to(0, [](auto const&) { return std::numeric_limits<double>::quiet_NaN(); });
          }) == "evict_to: the score of key 1 is NaN; expected a number");
}

TEST_CASE("a gradient that is not finite does not reach its row, and the norm of a row is limited") {
    float const nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
    auto table = table_of({.on_nonfinite = gs::nonfinite::skip}), alone = table_of();
    keys64 const keys{4, 5, 4, 6};
    floats g = ones(keys);
    g[1 * width + 2] = nan, g[2 * width] = -infinite;
    table.update(keys, g);
    step(alone, {4, 6});
    CHECK(table.row(4) == alone.row(4));
    CHECK(table.row(5) == floats(width, 0)); // as if it were not in the batch
    CHECK(table.num_rows() == 2);
    CHECK(table.counts() == gs::keyed_counts{.admitted = 2, .left_out = 2});
    keys64 const offsets{0, 2};
    table.update(keys, offsets, std::span(g).subspan(width, 2 * width)); // both bags
    CHECK(table.counts().left_out == 6);
    CHECK(table.row(5) == floats(width, 0));

    auto strict = table_of({.on_nonfinite = gs::nonfinite::raise});
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] { strict.update(keys, g); }) ==
          "keys[1]: the gradient of key 5 is not finite in column 2, and on_nonfinite is raise: the step is not taken");
    CHECK(strict.num_rows() == 0);
    CHECK(strict.clock().step == 0);

    // Neither an appearance that admits, nor a touch; and what is not admitted is looked at.
    keys64 const bad{5};
    floats const bad_gradient(width, nan);
    auto counting =
        table_of({.on_nonfinite = gs::nonfinite::skip, .admit_after = 2, .last_touches = true, .touch_counts = true});
    counting.update(bad, bad_gradient);
    step(counting, {5});
    CHECK(counting.num_rows() == 0);
    counting.update(bad, bad_gradient);
    CHECK(counting.num_rows() == 0);
    step(counting, {5});
    CHECK(counting.num_rows() == 1);
    counting.update(bad, bad_gradient);
    counting.update(bad, bad_gradient);
    step(counting, {6});
    counting.evict([](auto const& row) {
        CHECK(row.age == 3);
        CHECK(row.touch_count == 1);
        return false;
    });
    CHECK(counting.counts().left_out == 4);
    auto rare = table_of({.on_nonfinite = gs::nonfinite::raise, .admit_after = 2});
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] {
              rare.update(bad, bad_gradient);
          }).starts_with("keys[0]: the gradient of key 5 is not finite in column 0"));
    CHECK(rare.clock().step == 0);
    auto full = table_of({.on_nonfinite = gs::nonfinite::raise, .max_rows = 1});
    step(full, {4});
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] {
              full.update(bad, bad_gradient);
          }).starts_with("keys[0]: the gradient of key 5"));

    auto small = table_of({.initial = 3.0, .max_norm = 0.5});
    step(small, {1});
    double norm = 0;
    for (float const x : small.row(1)) norm += double{x} * double{x};
    CHECK(std::abs(std::sqrt(norm) - 0.5) <= 0.5 * 3 * 0x1p-24); // factor, product and what was rounded before
    CHECK(small.row(2) == floats(width, 3));
}

TEST_CASE("a reset is a change of the row, and no step that names it") {
    auto table = table_of({.initial = 0.5, .touch_counts = true}), replica = table_of(table.options());
    for (int t = 0; t < 3; ++t) step(table, {1, 2});
    step(table, {1});
    replica.apply(table.changed_since(0, gs::row_content::state));
    table.reset(keys64{2, 77, 2});
    CHECK(table.row(2) == floats(width, 0.5));
    CHECK_FALSE(table.contains(77));
    replica.apply(table.changed_since(replica.clock().step, gs::row_content::state));
    CHECK(replica.row(2) == floats(width, 0.5));
    step(table, {2});
    std::map<std::uint64_t, std::pair<std::uint32_t, std::uint32_t>> told;
    table.evict([&](auto const& row) {
        told[row.key] = {row.age, row.touch_count};
        return false;
    });
    CHECK(told[1] == std::pair{1u, 4u});
    CHECK(told[2] == std::pair{0u, 4u}); // three steps before the reset, one after it
}

TEST_CASE("changes of rows that are there take no room for new ones") {
    auto source = table_of(), replica = table_of();
    keys64 keys(30'000);
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = k;
    step(source, keys);
    replica.apply(source.changed_since(0));
    std::size_t const bytes = replica.index_bytes();
    std::uint64_t const capacity = replica.capacity();
    for (int t = 0; t < 3; ++t) {
        step(source, keys);
        replica.apply(source.changed_since(replica.clock().step));
    }
    CHECK(replica.index_bytes() == bytes);
    CHECK(replica.capacity() == capacity);
    // Rows that went and came anew are among both.
    source.evict_to(10);
    step(source, keys);
    replica.apply(source.changed_since(replica.clock().step));
    CHECK(replica.num_rows() == keys.size());
    CHECK(replica.row(29'999) == source.row(29'999));
    CHECK(replica.row(0) == source.row(0));
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("an eviction does not copy those before it") {
    auto table = table_of<gs::touch_only>();
    keys64 keys(60'000);
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = k;
    step(table, keys);
    table.evict_to(100);
    bytes_allocated = 0;
    constexpr std::uint64_t more = 20'000; // beyond the 2^16 that are remembered
    for (std::uint64_t k = 0; k < more; ++k) {
        keys64 const one{keys.size() + k};
        table.update(one, std::span<float const>(floats(width, 1.0f)));
        table.evict_to(100);
    }
    CHECK(bytes_allocated <
          more * 200 * 40); // what evict_to takes for a hundred rows; all that are remembered are a MiB
    CHECK(refusal<gs::value_error>([&] { table.changed_since(1); }).find("evictions are remembered from step") !=
          std::string::npos);
    CHECK(table.changed_since(table.clock().step - 19'000).evicted.size() >= 19'000);
}

// Every allocation of a call fails once.
TEST_CASE("a call of a keyed table whose memory fails leaves everything as it was") {
    auto table = table_of({.initial = 0.5, .max_history = 4});
    keys64 keys(40);
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = k * k;
    for (int t = 0; t < 3; ++t) step(table, keys);
    auto replica = table_of(table.options());
    replica.apply(table.changed_since(0));
    auto const fails = [&](auto const& prepared, auto const& call, bool changes = true) {
        auto const before = seen(prepared);
        for (std::size_t until = 0;; ++until) {
            auto copy = prepared;
            allocations_until_failure = until;
            bool threw = false;
            try {
                call(copy);
            } catch (gs::memory_error const&) {
                threw = true;
            }
            if (allocations_until_failure != SIZE_MAX) {
                allocations_until_failure = SIZE_MAX;
                REQUIRE(until > 0); // it allocates something
                CHECK((seen(copy) != before) == changes);
                return;
            }
            INFO("allocation " << until);
            REQUIRE(threw);
            REQUIRE(seen(copy) == before);
        }
    };
    keys64 more = keys;
    for (std::uint64_t k = 0; k < 3000; ++k) more.push_back(k << 40);
    floats const g = ones(more);
    fails(table, [&](auto& x) { x.update(more, g); });
    fails(table_of({.admit_after = 2}), [&](auto& x) { x.update(more, g); });
    fails(table, [](auto& x) { x.evict_older_than(100); });
    fails(table, [](auto& x) { x.evict_to(5); });
    fails(table, [](auto& x) { x.evict([](auto const& row) { return row.key % 3 == 0; }); });
    for (int t = 0; t < 1; ++t) step(table, more);
    table.evict_to(1500);
    auto const all = table.changed_since(0), some = table.changed_since(3);
    fails(replica, [&](auto& x) { x.apply(all); });
    fails(replica, [&](auto& x) { x.apply(some); });

    keys64 const offsets{0, 7};
    fails(table, [&](auto& x) { x.update(more, offsets, std::span(g).first(2 * width)); });
    fails(table, [&](auto& x) { x.reset(keys); });
    std::vector<std::byte> saved(gs::state_bytes(table));
    gs::save_state(table, saved);
    // What describes a state is small, and fails as the standard library does.
    auto const of_state = [](auto const& call) {
        return [&](auto& x) {
            gs::detail::rethrow_as<std::bad_alloc>([&] { call(x); },
                                                   [](auto const&) { throw gs::memory_error("of a state"); });
        };
    };
    auto const loads = [&](auto& x) { gs::load_state(x, saved); };
    auto const saves = [&](auto& x) { gs::save_state(x, saved); };
    fails(replica, of_state(loads));

    auto const unchanged = [&](auto const& call) { fails(table, call, false); };
    floats out(more.size() * width);
    unchanged([&](auto& x) { x.rows(more, out); });
    unchanged(of_state(saves));
    unchanged([](auto& x) { x.row(1); });
    unchanged([](auto& x) { x.keys(); });
    unchanged([&](auto& x) { x.hold(keys); });
    replica.hold(keys);
    fails(replica, [&](auto& x) { x.apply(all); });
    unchanged([](auto& x) { x.changed_since(2, gs::row_content::state); });
    gs::keyed_options const counting{.admit_after = 2};
    unchanged([&](auto&) { table_of(counting); });
    unchanged([&](auto&) { some.encode(); });
    auto const message = some.encode();
    unchanged([&](auto&) { decltype(table)::changes_type::decode(message); });
}

TEST_CASE("a call of a striped keyed table whose memory fails leaves everything as it was") {
    keys64 keys(3000);
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = k * k;
    floats const g = ones(keys);
    floats out(g.size());
    for (bool const reads : {false, true})
        for (std::size_t until = 0;; ++until) {
            gs::striped shared{table_of({.initial = 0.5, .max_history = 4}), 64};
            allocations_until_failure = until;
            bool threw = false;
            try {
                if (reads) shared.rows(keys, out);
                else shared.update(keys, g);
            } catch (gs::memory_error const&) {
                threw = true;
            }
            bool const all_given = allocations_until_failure != SIZE_MAX;
            allocations_until_failure = SIZE_MAX;
            INFO("allocation " << until);
            REQUIRE(threw != all_given);
            REQUIRE(shared.clock().step == (reads || threw ? 0 : 1));
            REQUIRE(shared.num_rows() == (reads || threw ? 0 : keys.size()));
            REQUIRE(shared.alone([](auto const& table) { return table.counts().admitted; }) == shared.num_rows());
            if (all_given) {
                REQUIRE(until > 0);
                break;
            }
        }
}
#endif

TEST_CASE("a pool that throws while rows are evicted or taken in leaves a keyed table as it was") {
    // 12 bytes x 64 a row: calls of several parts.
    constexpr std::size_t wide = 64, rows = 4000;
    int calls = 0, fails_at = -1;
    gs::callback_executor host(4, [&](std::size_t parts, gs::task work) {
        if (calls++ == fails_at) throw std::runtime_error("the host is gone");
        for (std::size_t part = 0; part < parts; ++part) work(part);
    });
    auto const on_host =
        gs::make_updater<float>(gs::momentum{}, gs::decoupled{0.125}, gs::constant{0.25}, gs::simd_backend{host});
    gs::keyed_table table{on_host, wide, gs::exact{}, {.initial = 1.0, .max_history = 64}};
    auto const train = [&](std::uint64_t first, std::uint64_t count) {
        keys64 keys(count);
        for (std::size_t k = 0; k < count; ++k) keys[k] = first + k;
        table.update(keys, floats(count * wide, 0.5f));
    };
    train(0, rows);
    auto const replica = table;
    for (std::uint64_t t = 1; t < 6; ++t) train(700 * t, 1000);
    auto const changes = table.changed_since(1, gs::row_content::state);
    auto const saved = [](auto const& x) {
        std::vector<std::byte> out(gs::state_bytes(x));
        gs::save_state(x, out);
        return out;
    };
    auto const survives = [&](char const* what, auto const& before, auto const& call) {
        CAPTURE(what);
        fails_at = -1;
        calls = 0;
        auto whole = before;
        call(whole);
        int const calls_of_all = calls;
        CHECK(calls_of_all > 0);
        for (int at = 0; at < calls_of_all; ++at) {
            CAPTURE(at);
            auto wronged = before;
            calls = 0;
            fails_at = at;
            CHECK_THROWS_AS(call(wronged), std::runtime_error);
            fails_at = -1;
            CHECK(wronged.keys() == before.keys());
            CHECK(wronged.counts() == before.counts());
            CHECK(wronged.clock() == before.clock());
            call(wronged); // the second time it is as if it were the first
            CHECK(saved(wronged) == saved(whole));
        }
    };
    survives("evict_older_than", table, [](auto& x) { x.evict_older_than(3); });
    survives("evict_to", table, [](auto& x) { x.evict_to(1500); });
    survives("evict", table, [](auto& x) { x.evict([](auto const& row) { return row.key % 2 == 0; }); });
    survives("apply", replica, [&](auto& x) { x.apply(changes); });
}

TEST_CASE("rows age by the steps that a keyed table goes ahead, and it does not go back") {
    gs::keyed_table table{gs::make_updater<float>(gs::adam{}, gs::constant{0.5}), 1};
    table.update(keys64{1, 2}, floats{1, 1});
    table.seek({.step = 50});
    table.update(keys64{2}, floats{1});
    std::vector<std::uint32_t> ages;
    table.evict([&](auto const& row) {
        if (row.key == 1) ages.push_back(row.age);
        return false;
    });
    CHECK(ages == std::vector<std::uint32_t>{50});
    CHECK(table.changed_since(51).keys == keys64{2});
    CHECK(table.evict_older_than(51) == 1);
    CHECK(refusal<gs::value_error>([&] { table.seek({.step = 50}); }) ==
          "seek: step 50; expected from 51, the step of the table, to 4611686018427387904");
    CHECK(table.clock().step == 51);
    // Rows whose ages have more than 32 bits are old, too.
    table.seek({.step = std::int64_t{1} << 40});
    CHECK(table.evict_older_than(table.clock().step) == 1);
    table.update(keys64{3}, floats{1});
    table.seek({.step = table.clock().step + (std::int64_t{1} << 32) + 4}); // 4, modulo 2^32
    CHECK(table.changed_since(table.clock().step - 10).keys.empty());
    CHECK(table.evict_older_than(table.clock().step - 10) == 1);
}
