// The bounded history of a table: rows never fall out of it, it goes through a checkpoint, and
// steps are counted exactly.
#include <rows/catch_up.hpp>

#include <limits>
#include <span>

namespace {

using dense::rule;

auto shrinking() {
    return gs::make_updater<double>(gs::sgd{}, gs::proximal{gs::elastic_net{.l1 = 0.004, .l2 = 0.05}}, gs::external{},
                                    gs::serial_backend{});
}
auto moving() {
    return gs::make_updater<double>(gs::momentum{}, gs::decoupled{0.05}, gs::external{}, gs::serial_backend{});
}
auto repeating() {
    return gs::make_updater<double>(gs::adam{}, gs::decoupled{0.05}, gs::external{}, gs::serial_backend{});
}
auto standing() { return gs::make_updater<double>(gs::ftrl{.l1 = 0.01}, gs::external{}, gs::serial_backend{}); }

constexpr std::size_t rows = 7, width = 3;
gs::table_options options_with(std::int64_t max_history) {
    return {.initial = gs::uniform{-1, 1, 5}, .max_history = max_history};
}

double rate_of(std::int64_t t) { return 0.01 + 0.001 * static_cast<double>(t % 13); }
// Step t of a run that touches one row or none.
template <class Table> void take_step(Table& table, std::int64_t t) {
    std::vector<std::int32_t> ids;
    std::vector<double> g;
    if (t % 3 != 1) {
        ids.push_back(static_cast<std::int32_t>(t * t % 5));
        for (std::size_t i = 0; i < table.width(); ++i) g.push_back(dense::gradient(static_cast<std::size_t>(t), 1, i));
    }
    table.update(ids, g, {.rate = rate_of(t)});
}

template <class Table> std::vector<double> all_rows(Table const& table) {
    std::vector<std::int64_t> ids;
    for (std::uint64_t k = 0; k < table.num_rows(); ++k) ids.push_back(static_cast<std::int64_t>(k));
    std::vector<double> out(ids.size() * table.width());
    table.rows(ids, out);
    return out;
}
// What is stored, with stamps as they would be `later` steps before.
template <class Table> std::vector<double> stored(Table& table, std::uint32_t later = 0) {
    auto const memory = table.memory();
    std::vector<double> out(memory.values.begin(), memory.values.end());
    for (auto const& state : memory.state) out.insert(out.end(), state.begin(), state.end());
    for (std::uint32_t const stamp : memory.stamps) out.push_back(stamp - later);
    return out;
}
template <class Table> void copy_memory(Table& from, Table& to, std::uint32_t later = 0) {
    auto const a = from.memory(), b = to.memory();
    std::copy(a.values.begin(), a.values.end(), b.values.begin());
    for (std::size_t i = 0; i < a.state.size(); ++i)
        std::copy(a.state[i].begin(), a.state[i].end(), b.state[i].begin());
    for (std::size_t k = 0; k < a.stamps.size(); ++k) b.stamps[k] = a.stamps[k] + later;
}

template <class Updater, class CatchUp>
void stays_young(Updater const& optimizer, CatchUp catch_up, std::int64_t max_history, std::uint32_t capacity) {
    gs::table table{optimizer, rows, width, catch_up, options_with(max_history)};
    std::vector<std::uint64_t> looked_at;
    for (std::int64_t t = 0; t < 300; ++t) {
        auto const [first, last] = table.stale_rows();
        std::vector<std::uint64_t> missed;
        for (std::uint64_t k = first; k < last; ++k) {
            looked_at.push_back(k);
            missed.push_back(table.pending_steps(static_cast<std::int64_t>(k)));
        }
        take_step(table, t);
        auto const stamps = table.memory().stamps;
        std::uint32_t oldest = 0;
        for (std::size_t k = 0; k < rows; ++k) {
            oldest = std::max(oldest, static_cast<std::uint32_t>(t + 1) - stamps[k]);
            CHECK(table.pending_steps(static_cast<std::int64_t>(k)) == static_cast<std::uint32_t>(t + 1) - stamps[k]);
        }
        CHECK(oldest <= capacity - 1);
        for (std::uint64_t k = first; k < last; ++k) {
            bool const caught_up = stamps[k] >= static_cast<std::uint32_t>(t);
            CHECK((caught_up || missed[k - first] <= table.max_row_age()));
        }
    }
    // Laps of at most capacity / 2 - 1 steps, each of which goes over all rows once.
    CHECK(table.max_row_age() == capacity / 2 - 1);
    CHECK(looked_at.size() >= 300 / (capacity / 2 - 1) * rows);
    for (std::size_t k = 0; k < looked_at.size(); ++k) CHECK(looked_at[k] == k % rows);
}

template <class Updater, class CatchUp>
void resumes(Updater const& optimizer, CatchUp catch_up, std::int64_t max_history) {
    gs::table first{optimizer, rows, width, catch_up, options_with(max_history)};
    for (std::int64_t t = 0; t < 150; ++t) take_step(first, t);
    gs::table second{optimizer, rows, width, catch_up, options_with(max_history)};
    second.update(std::vector<std::int32_t>{1}, std::vector<double>(width, 1.0), {.rate = 0.5}); // to be forgotten
    copy_memory(first, second);
    second.restore(first.progress());
    CHECK(second.clock() == first.clock());
    CHECK((all_rows(second) == all_rows(first)));
    for (std::int64_t t = 150; t < 250; ++t) {
        take_step(first, t);
        take_step(second, t);
        REQUIRE((stored(second) == stored(first)));
        if (t % 10 == 0) REQUIRE((all_rows(second) == all_rows(first)));
    }
    CHECK((second.progress().history == first.progress().history));
}

// A run from step 20 on, and the same with all step numbers later by a multiple of the history's
// length, so that its blocks of steps begin where they did: the same bits, whatever the numbers
// are.
template <class Updater, class CatchUp> void counts(std::int64_t later, Updater const& optimizer, CatchUp catch_up) {
    gs::table early{optimizer, rows, width, catch_up, options_with(16)};
    for (std::int64_t t = 0; t < 20; ++t) take_step(early, t);
    gs::table late{optimizer, rows, width, catch_up, options_with(16)};
    copy_memory(early, late, static_cast<std::uint32_t>(later));
    auto at = early.progress();
    at.clock.step += later;
    late.restore(at);
    CHECK((all_rows(late) == all_rows(early)));
    for (std::int64_t t = 20; t < 80; ++t) {
        take_step(early, t);
        take_step(late, t);
        REQUIRE(late.clock().step == t + 1 + later);
        REQUIRE((stored(late, static_cast<std::uint32_t>(later)) == stored(early)));
        REQUIRE((all_rows(late) == all_rows(early)));
        for (std::int64_t k = 0; k < std::int64_t(rows); ++k) REQUIRE(late.pending_steps(k) == early.pending_steps(k));
    }
}

template <class Updater, class CatchUp>
void refuses(Updater const& optimizer, CatchUp catch_up, std::function<void(gs::row_progress&)> const& spoil) {
    gs::table table{optimizer, rows, width, catch_up, options_with(16)};
    for (std::int64_t t = 0; t < 40; ++t) take_step(table, t);
    auto const before = table.progress();
    auto const memory = stored(table), read = all_rows(table);
    auto spoiled = before;
    spoil(spoiled);
    CHECK_THROWS_AS(table.restore(spoiled), gs::error);
    CHECK(table.clock() == before.clock);
    CHECK((table.progress().history == before.history));
    CHECK(table.progress().lap_row == before.lap_row);
    CHECK(table.progress().lap_rows == before.lap_rows);
    CHECK(table.progress().max_history == before.max_history);
    CHECK((stored(table) == memory));
    CHECK((all_rows(table) == read));
    table.restore(before);
    CHECK((all_rows(table) == read));
}

} // namespace

TEST_CASE("a rolling sweep keeps every row in the history", "[history]") {
    struct size {
        std::int64_t asked;
        std::uint32_t capacity;
    };
    for (auto const& [asked, capacity] : {size{1, 4}, size{2, 4}, size{3, 4}, size{5, 8}, size{64, 64}}) {
        CAPTURE(asked);
        stays_young(shrinking(), gs::exact{}, asked, capacity);
        stays_young(moving(), gs::exact{}, asked, capacity);
        stays_young(repeating(), gs::replay{8}, asked, capacity);
    }
}

TEST_CASE("a short history gives the dense sweep too", "[history]") {
    for (std::int64_t const max_history : {2, 4, 64}) {
        CAPTURE(max_history);
        dense::script const s{.gaps = {1, 2, 10, 300, 1999}, .flush_at = 777, .max_history = max_history};
        dense::follow_schedules(shrinking(), {.rule = rule::sgd, .penalties = {.prox_l1 = 0.004, .prox_l2 = 0.05}}, s,
                                1000);
        dense::follow_schedules(moving(), {.rule = rule::momentum, .penalties = {.decoupled = 0.05}, .mu = 0.9}, s,
                                1000);
    }
}

TEST_CASE("only rows with a history are due", "[history]") {
    gs::table stands{standing(), rows, width, gs::exact{}};
    gs::table forgets{shrinking(), rows, width, gs::touch_only{}};
    for (std::int64_t t = 0; t < 10; ++t) {
        take_step(stands, t);
        take_step(forgets, t);
        CHECK(stands.stale_rows() == std::pair<std::uint64_t, std::uint64_t>{0, 0});
        CHECK(forgets.stale_rows() == std::pair<std::uint64_t, std::uint64_t>{0, 0});
    }
}

TEST_CASE("a checkpoint without a flush resumes bit for bit, in each form", "[history]") {
    for (std::int64_t const max_history : {16, 64, 4096}) {
        CAPTURE(max_history);
        resumes(shrinking(), gs::exact{}, max_history);
        resumes(moving(), gs::exact{}, max_history);
        resumes(repeating(), gs::replay{1000}, max_history);
        resumes(standing(), gs::exact{}, max_history);
        resumes(shrinking(), gs::touch_only{}, max_history);
    }
}

// Stamps have 32 bits, and wrap.
TEST_CASE("stamps stay right past 2^32 steps", "[history]") {
    std::int64_t const wrap = std::int64_t{1} << 32;
    counts(wrap - 32, shrinking(), gs::exact{});
    counts(wrap - 32, moving(), gs::exact{});
    counts(wrap - 32, standing(), gs::exact{});
    counts(3 * wrap - 64, shrinking(), gs::exact{});
    auto const repeated = gs::make_updater<double>(gs::momentum{}, gs::l2{0.05}, gs::external{}, gs::serial_backend{});
    counts(wrap - 32, repeated, gs::replay{16});
}

// FBGEMM keeps the step of a row's last update (prev_iter) and its counter in float, which stop at
// 2^24.
TEST_CASE("rows count steps exactly past 2^24", "[history]") {
    std::int64_t const inexact = std::int64_t{1} << 24;
    counts(inexact - 32, shrinking(), gs::exact{});
    counts(inexact - 32, moving(), gs::exact{});
    counts(inexact, standing(), gs::exact{});
}

TEST_CASE("restore refuses what no run can have, and changes nothing", "[history]") {
    auto const each = [](std::function<void(gs::row_progress&)> const& spoil) {
        refuses(shrinking(), gs::exact{}, spoil);
        refuses(moving(), gs::exact{}, spoil);
        refuses(repeating(), gs::replay{8}, spoil);
    };
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    each([](gs::row_progress& x) { x.clock.step = -1; });
    each([](gs::row_progress& x) { x.clock.samples = -1; });
    each([](gs::row_progress& x) { x.num_rows = rows + 1; });
    each([](gs::row_progress& x) { x.kind = gs::history_kind::none; });
    each([](gs::row_progress& x) { x.kind = static_cast<gs::history_kind>(7); });
    each([](gs::row_progress& x) { x.max_history = 0; });
    each([](gs::row_progress& x) { x.max_history = 17; });
    each([](gs::row_progress& x) { x.max_history = 8; });
    each([](gs::row_progress& x) { x.max_history = std::uint64_t{1} << 40; });
    each([](gs::row_progress& x) { x.lap_row = rows + 1; });
    each([](gs::row_progress& x) { x.lap_rows = rows + 1; });
    each([](gs::row_progress& x) { x.lap_row = x.lap_rows + 1; });
    each([](gs::row_progress& x) { x.rate = -1; });
    each([](gs::row_progress& x) { x.rate = nan; });
    each([](gs::row_progress& x) { x.history.clear(); });
    each([](gs::row_progress& x) { x.history.resize(x.history.size() / 2 / 12 * 12); });
    each([](gs::row_progress& x) { x.history.resize(40 * 12, 0.5); });
    each([](gs::row_progress& x) { x.history.back() = nan; });
    each([](gs::row_progress& x) { x.history.front() = std::numeric_limits<double>::infinity(); });
    refuses(shrinking(), gs::exact{}, [](gs::row_progress& x) { x.history.pop_back(); });
    refuses(moving(), gs::exact{}, [](gs::row_progress& x) { x.history.pop_back(); });
    refuses(repeating(), gs::replay{8}, [](gs::row_progress& x) { x.history.back() = -0.5; });
    refuses(repeating(), gs::replay{8}, [](gs::row_progress& x) { x.history.back() = 100; }); // a decay of 5
    refuses(standing(), gs::exact{}, [](gs::row_progress& x) { x.history.push_back(0.5); });
}
