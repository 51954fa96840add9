// What a table allocates: nothing, once it has seen batches of the size.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <new>
#include <random>
#include <span>
#include <vector>

#include <support/allocations.hpp>
#include <support/catch.hpp>
#include <support/rows.hpp>

namespace {

using ids64 = std::vector<std::int64_t>;

// The allocations of 20 batches, of plain and pooled steps, after the first two of the size.
template <class Table> std::size_t allocated_by(Table table, bool distinct) {
    constexpr std::size_t k = 3000, bags = 1000;
    std::size_t const num_rows = table.num_rows(), width = table.width();
    std::vector<ids64> batches(22, ids64(k));
    std::mt19937_64 random(1);
    for (auto& ids : batches)
        for (std::size_t p = 0; p < k; ++p)
            ids[p] =
                static_cast<std::int64_t>(distinct ? (p * 7 + random() % 7) % num_rows
                                                   : std::min<std::uint64_t>(random() % num_rows, random() % num_rows));
    ids64 offsets(bags);
    for (std::size_t b = 0; b < bags; ++b) offsets[b] = static_cast<std::int64_t>(b * k / bags);
    std::vector<float> g(k * width, 1);
    auto const step = [&](ids64 const& ids) {
        table.update(ids, g, {.gradient_scale = 0.5, .zero_gradient = true});
        table.update(ids, offsets, std::span(g).first(bags * width));
        table.update(std::span(ids).first(k / 2), std::span(g).first(k / 2 * width));
        table.rows(ids, g);
    };
    step(batches[0]);
    step(batches[1]);
    allocations = 0;
    for (std::size_t i = 2; i < batches.size(); ++i) step(batches[i]);
    return allocations;
}

template <class CatchUp>
std::size_t allocated_by(std::size_t num_rows, std::size_t width, CatchUp const& catch_up,
                         gs::table_options const& options = {}) {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    bool const distinct = options.duplicates == gs::duplicates::unique;
    return allocated_by(gs::table{optimizer, num_rows, width, catch_up, options}, distinct);
}

} // namespace

TEST_CASE("the counter of allocations counts") {
    allocations = 0;
    std::vector<std::vector<int>> const some(3, std::vector<int>(1000, 1));
    std::vector<double, gs::detail::line_allocator<double>> const aligned(some.size() * 10);
#if !defined(__SANITIZE_ADDRESS__)
    CHECK(allocations >= 5);
#endif
}

TEST_CASE("a batch allocates nothing once the table has seen its size") {
    gs::touch_only const lazy{};
    gs::exact const exact{};
    CHECK(allocated_by(20'000, 16, lazy) == 0);              // by hash
    CHECK(allocated_by(std::size_t{1} << 23, 4, lazy) == 0); // sorted
    CHECK(allocated_by(40'000, 16, lazy, {.duplicates = gs::duplicates::mean}) == 0);
    CHECK(allocated_by(40'000, 16, lazy, {.duplicates = gs::duplicates::unique}) == 0);
    CHECK(allocated_by(20'000, 16, lazy, {.row_steps = true, .ignore_id = 5}) == 0);
    CHECK(allocated_by(20'000, 16, exact, {.max_history = 50}) == 0); // with its rolling sweep
    CHECK(allocated_by(20'000, 16, gs::replay{3}, {.max_history = 50}) == 0);
}

TEST_CASE("striped: a call allocates nothing once it has seen batches of its size") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    CHECK(allocated_by(gs::striped{gs::table{optimizer, 20'000, 16, gs::exact{}, {.max_history = 50}}}, false) == 0);
}

TEST_CASE("striped: an allocation that fails in a call leaves everything as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l1{1e-3}}, gs::constant{0.25});
    ids64 const ids{3, 5, 3, 40}, offsets{0, 1};
    std::vector<float> const g(4 * 8, 1.0f);
    std::vector<float> out(4 * 8);
    auto const call = [&](auto& shared, int which) {
        if (which == 0) shared.update(ids, g);
        if (which == 1) shared.update(ids, offsets, std::span(g).first(2 * 8));
        if (which == 2) shared.rows(ids, out);
    };
    for (int which = 0; which < 3; ++which) {
        std::size_t failures = 0;
        for (bool done = false; !done; failures += !done) {
            gs::striped shared{gs::table{optimizer, 50, 8, gs::exact{}, {.initial = 1.0, .max_history = 4}}};
            for (int s = 0; s < 5; ++s)
                shared.alone([&](auto& table) { table.update(ids64{7}, std::span(g).first(8)); });
            held const before(shared.alone([](auto& table) -> auto& { return table; }));
            allocations_until_failure = failures;
            try {
                call(shared, which);
                done = true;
            } catch (std::bad_alloc const&) {
            } catch (gs::memory_error const&) {
            }
            allocations_until_failure = SIZE_MAX;
            CAPTURE(which, failures);
            shared.alone([&](auto& table) {
                CHECK(table.clock().step == 5 + (done && which < 2));
                if (!done) CHECK(difference(held(table), before) == "");
            });
            if (!done) call(shared, which); // no lock is left held
        }
#if !defined(__SANITIZE_ADDRESS__)
        CHECK(failures >= 3);
#endif
    }
}

TEST_CASE("a batch of several threads allocates nothing once the table has seen its size") {
    gs::thread_pool pool(3);
    auto const optimizer =
        gs::make_updater<float>(gs::rowwise_adagrad{}, gs::decoupled{1e-3}, gs::constant{0.25}, gs::simd_backend{pool});
    // A thread's part of the batches varies in size: the largest may come late, and grows five arrays and their ends.
    CHECK(allocated_by(gs::table{optimizer, 20'000, 64, gs::exact{}}, false) <= 3 * 5);
}
