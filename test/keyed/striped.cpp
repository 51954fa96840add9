// Keyed tables with several writers and readers.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/keyed/striped.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

using keys64 = std::vector<std::uint64_t>;
using floats = std::vector<float>;

// Runs f(k) on `count` threads at once.
template <class F> void on_threads(int count, F const& f) {
    std::vector<std::thread> threads;
    for (int k = 0; k < count; ++k) threads.emplace_back([&, k] { f(k); });
    for (auto& thread : threads) thread.join();
}

} // namespace

TEST_CASE("striped keys: no update of several writers is lost, and readers see whole rows, while rows come") {
    // Rows of 4 KiB: there are several segments of memory in the end, each taken by a call that is
    // alone. Every number is a multiple of 2^-3 below 2^20: float adds them exactly, in any order.
    constexpr std::size_t width = 1024, universe = 1500;
    gs::striped shared{gs::keyed_table{gs::make_updater<float>(gs::sgd{}, gs::constant{0.125}), width}};
    constexpr int writers = 3, steps = 150, batch = 16;
    std::vector<std::vector<int>> named(writers, std::vector<int>(universe));
    std::atomic<bool> done = false;
    std::atomic<int> torn = 0;
    on_threads(writers + 1, [&](int k) {
        std::mt19937_64 random(static_cast<std::uint64_t>(k));
        keys64 keys(batch);
        floats rows(batch * width, -1.0f);
        if (k == writers) {
            while (!done) {
                for (auto& key : keys) key = random() % universe;
                shared.rows(keys, rows);
                for (std::size_t r = 0; r < batch; ++r)
                    torn += std::any_of(&rows[r * width], &rows[r * width] + width,
                                        [&](float x) { return x != rows[r * width]; });
            }
            return;
        }
        for (int s = 0; s < steps; ++s) {
            for (auto& key : keys) {
                key = random() % 2 == 0 ? random() % 8 : random() % universe; // writers meet at a few
                ++named[static_cast<std::size_t>(k)][key];
            }
            shared.update(keys, rows);
        }
        done = true;
    });
    CHECK(torn == 0);
    CHECK(shared.clock().step == writers * steps);
    std::uint64_t seen = 0;
    for (std::size_t key = 0; key < universe; ++key) {
        int times = 0;
        for (auto const& of_writer : named) times += of_writer[key];
        seen += times != 0;
        REQUIRE(shared.row(key)[width - 1] == static_cast<float>(times) / 8);
    }
    CHECK(shared.num_rows() == seen);
    shared.alone([&](auto const& table) { CHECK(table.counts().admitted == seen); });
}

TEST_CASE("striped keys: a row begins in the first step that names it, and none misses one later") {
    // Every step halves all rows there are, and brings one: at the end they are 2^-1, 2^-2, ...
    gs::striped shared{gs::keyed_table{gs::make_updater<float>(gs::sgd{}, gs::decoupled{0.5}, gs::constant{1.0}),
                                       3,
                                       gs::exact{},
                                       {.initial = 1.0, .max_history = 256}}};
    constexpr int writers = 4, steps = 30;
    on_threads(writers, [&](int k) {
        for (int s = 0; s < steps; ++s)
            shared.update(keys64{static_cast<std::uint64_t>(s * writers + k)}, floats(3, 0.0f));
    });
    std::vector<int> halved;
    for (std::uint64_t key = 0; key < writers * steps; ++key) halved.push_back(-std::ilogb(shared.row(key)[1]));
    std::sort(halved.begin(), halved.end());
    for (int t = 0; t < writers * steps; ++t) REQUIRE(halved[static_cast<std::size_t>(t)] == t + 1);
}

TEST_CASE("striped keys: with one writer all is as of a keyed table") {
    auto const updater = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::l2{0.01}}, gs::constant{0.25});
    gs::keyed_options const options{.initial = gs::uniform{-1, 1, 3},
                                    .admit_after = 3,
                                    .sketch_half_life = 7,
                                    .max_rows = 60,
                                    .touch_counts = true};
    gs::keyed_table alone{updater, 5, gs::exact{}, options};
    gs::striped shared{gs::keyed_table{updater, 5, gs::exact{}, options}};
    std::mt19937_64 random(1);
    for (int t = 0; t < 100; ++t) {
        keys64 keys(2 + random() % 20);
        for (auto& key : keys) key = random() % 90;
        floats g(keys.size() * 5);
        for (auto& x : g) x = static_cast<float>(random() % 17) / 16;
        keys64 const offsets{0, keys.size() / 2};
        if (t % 3 == 0) {
            alone.update(keys, offsets, std::span(g).first(10));
            shared.update(keys, offsets, std::span(g).first(10));
            continue;
        }
        alone.update(keys, g);
        shared.update(keys, g);
    }
    shared.alone([&](auto& table) {
        CHECK(table.counts() == alone.counts());
        CHECK(table.keys() == alone.keys());
        CHECK(table.changed_since(95).keys == alone.changed_since(95).keys);
    });
    keys64 all(100);
    for (std::uint64_t k = 0; k < 100; ++k) all[k] = k;
    floats a(500), b(500);
    alone.rows(all, a);
    shared.rows(all, b);
    CHECK(a == b);
}

TEST_CASE("striped keys: evictions, increments and admission beside writers and readers lose nothing") {
    // Every gradient that is applied adds 2^-3 to its row: what the rows have, and those that went
    // had, is what was not turned away.
    constexpr std::size_t width = 6;
    constexpr std::uint64_t universe = 3000;
    constexpr int writers = 2, steps = 400, batch = 24;
    auto const updater = gs::make_updater<float>(gs::sgd{}, gs::constant{0.125});
    gs::keyed_options const options{.admit_after = 2, .sketch_half_life = 64, .touch_counts = true};
    gs::striped shared{gs::keyed_table{updater, width, gs::touch_only{}, options}};
    gs::keyed_table replica{updater, width, gs::touch_only{}, options};
    std::atomic<int> writing = writers, torn = 0;
    double gone = 0;
    std::uint64_t evicted = 0;
    on_threads(writers + 2, [&](int k) {
        std::mt19937_64 random(static_cast<std::uint64_t>(k));
        keys64 keys(batch);
        floats rows(batch * width, -1.0f);
        for (int s = 0; k < writers && s < steps; ++s) {
            for (auto& key : keys) key = random() % 2 == 0 ? random() % 40 : random() % universe;
            shared.update(keys, rows);
        }
        if (k < writers) --writing;
        while (k == writers && writing != 0) {
            for (auto& key : keys) key = random() % universe;
            shared.rows(keys, rows);
            for (std::size_t r = 0; r < batch; ++r)
                torn += std::any_of(&rows[r * width], &rows[r * width] + width,
                                    [&](float x) { return x != rows[r * width]; });
        }
        for (bool last = k != writers + 1; !last;) { // the last time when all is written
            last = writing == 0;
            shared.alone([&](auto& table) {
                evicted += table.evict([&](auto const& row) {
                    bool const old = row.age > 30 || row.key % 64 == 5;
                    if (old) gone += double{row.values[0]};
                    return old;
                });
            });
            auto const increment =
                shared.alone([&](auto& table) { return table.changed_since(replica.clock().step).encode(); });
            replica.apply(decltype(replica)::changes_type::decode(increment));
        }
    });
    CHECK(torn == 0);
    CHECK(evicted > 0);
    shared.alone([&](auto& table) {
        replica.apply(table.changed_since(replica.clock().step));
        auto const counts = table.counts();
        CHECK(counts.turned_away > 0);
        CHECK(counts.evicted == evicted);
        CHECK(counts.admitted == table.num_rows() + evicted);
        CHECK(replica.num_rows() == table.num_rows());
        double there = 0;
        for (std::uint64_t const key : table.keys()) {
            there += double{table.row(key)[0]};
            REQUIRE(replica.row(key) == table.row(key));
        }
        CHECK((there + gone) * 8 == static_cast<double>(writers * steps * batch - counts.turned_away));
    });
}

TEST_CASE("striped keys: what it refuses leaves everything as it was") {
    auto const updater = gs::make_updater<float>(gs::sgd{}, gs::constant{0.25});
    gs::striped shared{gs::keyed_table{updater, 2, gs::touch_only{},
                                       gs::keyed_options{.duplicates = gs::duplicates::unique,
                                                         .on_nonfinite = gs::nonfinite::raise,
                                                         .admit_after = 2}}};
    shared.update(keys64{1, 2}, floats(4));
    CHECK(refusal<gs::value_error>([&] {
              shared.update(keys64{1, 3, 1}, floats(6));
          }) == "keys[2]: 1 appears before, at position 0; expected distinct keys, since duplicates is "
                "unique; sum adds their gradients");
    floats const bad{0, 0, 0, std::numeric_limits<float>::infinity()};
    CHECK(refusal<gs::nonfinite_error, std::runtime_error>([&] {
              shared.update(keys64{3, 2}, bad);
          }) ==
          "keys[1]: the gradient of key 2 is not finite in column 1, and on_nonfinite is raise: the step is not taken");
    CHECK(refusal<gs::value_error>([&] {
              shared.update(keys64{2}, floats(2), {.rate_scale = -1});
          }).find("rate_scale") != std::string::npos);
    CHECK(refusal<gs::size_error>([&] { shared.update(keys64{2}, floats(3)); }) ==
          "gradient_rows: has 3 elements; expected 1 keys x width 2");
    CHECK(shared.clock().step == 1);
    CHECK(shared.num_rows() == 0);
    shared.update(keys64{3}, floats(2)); // its first appearance that counts
    CHECK(shared.num_rows() == 0);
    shared.update(keys64{1}, floats(2));
    CHECK(shared.num_rows() == 1);
}

TEST_CASE("striped keys: what a refused call has brought, no other call has found") {
    // One thread's calls are refused in the middle, after their new keys have come; others use the
    // same keys.
    auto const updater = gs::make_updater<float>(gs::sgd{}, gs::constant{0.125});
    gs::striped shared{
        gs::keyed_table{updater, 4, gs::touch_only{}, gs::keyed_options{.on_nonfinite = gs::nonfinite::raise}}};
    constexpr std::uint64_t universe = 4000;
    on_threads(3, [&](int k) {
        std::mt19937_64 random(static_cast<std::uint64_t>(k));
        for (std::uint64_t first = 0; first < universe; first += 4) {
            keys64 keys{first, first + 1, first + 2, first + 3};
            floats rows(keys.size() * 4, -1.0f);
            if (k == 0) {
                rows.back() = std::numeric_limits<float>::infinity();
                CHECK_THROWS_AS(shared.update(keys, rows), gs::nonfinite_error);
            } else if (k == 1) {
                shared.update(keys, rows);
            } else {
                shared.rows(keys, rows);
            }
        }
    });
    CHECK(shared.clock().step == universe / 4);
    for (std::uint64_t key = 0; key < universe; ++key) REQUIRE(shared.row(key) == floats(4, 0.125f));
    shared.alone([&](auto const& table) { CHECK(table.counts().admitted == universe); });
}
