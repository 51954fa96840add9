// Tables with several writers: what gs::striped guarantees.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <gradstep/striped.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

// Runs f(k) on `count` threads at once.
template <class F> void on_threads(int count, F const& f) {
    std::vector<std::thread> threads;
    for (int k = 0; k < count; ++k) threads.emplace_back([&, k] { f(k); });
    for (auto& thread : threads) thread.join();
}

constexpr std::int64_t rows = 64;
constexpr std::size_t width = 19;

template <class T> T median(std::vector<T> x) {
    std::ranges::nth_element(x, x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2));
    return x[x.size() / 2];
}

// Threads that call update without a pause, until they are told to stop or have called `most`
// times, and count.
class busy_writers {
public:
    template <class Striped>
    busy_writers(Striped& shared, std::size_t count, int most) : calls_(count), stop_(false), starved_(false) {
        for (std::size_t k = 0; k < count; ++k)
            threads_.emplace_back([&, k, most] {
                std::vector<std::int64_t> const ids{static_cast<std::int64_t>(k) % rows, 5};
                std::vector<float> const gradient(2 * width, -1.0f);
                for (int c = 0; c < most && !stop_; ++c) {
                    shared.update(ids, gradient);
                    ++calls_[k];
                }
                if (!stop_) starved_ = true;
            });
        for (auto const& calls : calls_)
            while (calls == 0) std::this_thread::yield(); // so that all are under way
    }
    ~busy_writers() { stop(); }

    void stop() {
        stop_ = true;
        for (auto& thread : threads_)
            if (thread.joinable()) thread.join();
    }
    // Whether one of them called as often as it might and was not told to stop: what it ran beside
    // had to wait for that.
    bool waited_for() const { return starved_; }
    std::vector<int> calls() const { return {calls_.begin(), calls_.end()}; }

private:
    std::vector<std::atomic<int>> calls_;
    std::atomic<bool> stop_, starved_;
    std::vector<std::thread> threads_;
};

} // namespace

// elasticdl #1216, mxnet #9310: updates of one row from several workers overwrite each other.
TEST_CASE("striped: no update of several writers is lost") {
    // Every number is a multiple of 2^-3 below 2^20: float adds them exactly, in any order.
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.125});
    std::size_t const stripes = GENERATE(std::size_t{1}, std::size_t{7}, std::size_t{1024});
    gs::striped shared{gs::table{optimizer, rows, width}, stripes};
    constexpr int writers = 4, steps = 300, batch = 8;
    std::vector<std::vector<double>> named(writers, std::vector<double>(rows));

    on_threads(writers, [&](int k) {
        std::mt19937 random(static_cast<unsigned>(k));
        std::vector<std::int32_t> ids(batch);
        std::vector<float> const gradient(batch * width, -1.0f);
        for (int s = 0; s < steps; ++s) {
            for (auto& id : ids) {
                id = static_cast<std::int32_t>(random() % 8); // few rows, so that writers meet
                named[static_cast<std::size_t>(k)][static_cast<std::size_t>(id)] += 1;
            }
            shared.update(ids, gradient);
        }
    });

    CHECK(shared.clock().step == writers * steps);
    for (std::size_t r = 0; r < rows; ++r) {
        double times = 0;
        for (auto const& of_writer : named) times += of_writer[r];
        for (float const w : shared.row(static_cast<std::int64_t>(r))) REQUIRE(static_cast<double>(w) == times / 8);
    }
}

TEST_CASE("striped: readers see whole rows") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1.0});
    gs::striped shared{gs::table{optimizer, rows, width}};
    std::vector<int> torn(4);
    on_threads(4, [&](int k) {
        if (k % 2 == 0) {
            std::vector<std::int64_t> const ids{1, 5};
            std::vector<float> const gradient(2 * width, -1.0f);
            for (int s = 0; s < 400; ++s) shared.update(ids, gradient);
        } else {
            for (int s = 0; s < 400; ++s) {
                auto const row = shared.row(5);
                for (float const w : row) torn[static_cast<std::size_t>(k)] += w != row[0];
            }
        }
    });
    CHECK(torn == std::vector<int>(4));
    CHECK(shared.row(5)[0] == 800);
}

TEST_CASE("striped: every row catches up once on every step that it missed, whatever the writers do") {
    // Without gradient the order of two batches on a row does not matter: after n steps w = w0 * (1
    // - lr * rate)^n.
    auto const optimizer = gs::make_updater<double>(gs::adagrad{}, gs::decoupled{0.01}, gs::constant{0.5});
    gs::striped shared{gs::table{optimizer, rows, width, gs::exact{}, {.initial = 1.0, .max_history = 64}}};
    std::vector<int> outside(4); // far from it: a step changes w by 5e-3, rounding by less than 1e-9
    on_threads(4, [&](int k) {
        std::mt19937 random(static_cast<unsigned>(k));
        std::vector<std::uint64_t> ids(5);
        std::vector<double> const gradient(5 * width);
        for (int s = 0; s < 250; ++s) {
            for (auto& id : ids) id = random() % (rows / 2); // the sweep catches up the other half
            shared.update(ids, gradient);
            // A reader sees a row after the steps that began before, and before those that begin
            // afterwards.
            auto const before = static_cast<double>(shared.clock().step);
            double const w = shared.row(static_cast<std::int64_t>(random() % rows))[3];
            auto const after = static_cast<double>(shared.clock().step);
            outside[static_cast<std::size_t>(k)] +=
                w < std::pow(1 - 0.005, after) * (1 - 1e-9) || w > std::pow(1 - 0.005, before) * (1 + 1e-9);
        }
    });
    CHECK(outside == std::vector<int>(4));
    // Each of 1000 steps rounds at most once in w, and once in the factor: 2000 roundings. The
    // closed form has below 8 for each of at most 1000 catch-ups.
    double const expected = std::pow(1 - 0.005, 1000), bound = 10'000 * 0x1p-53;
    shared.alone([&](auto& table) {
        CHECK(table.clock().step == 1000);
        for (double const w : table.values()) REQUIRE(std::abs(w - expected) <= bound * expected);
    });
}

TEST_CASE("striped: with one writer the bits are those of the table") {
    auto const optimizer = gs::make_updater<float>(gs::momentum{}, gs::l2{0.01}, gs::cosine{.rate = 0.1, .steps = 100});
    auto const make = [&] {
        return gs::table{optimizer, rows, width, gs::exact{}, {.initial = gs::uniform{-1, 1, 7}, .max_history = 32}};
    };
    auto table = make();
    gs::striped shared{make()};
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<std::int32_t> ids(6);
    std::vector<float> gradient(6 * width), bags(2 * width);
    std::vector<std::int32_t> const offsets{0, 2};
    for (int s = 0; s < 200; ++s) {
        for (auto& id : ids) id = static_cast<std::int32_t>(random() % 20);
        for (auto& g : gradient) g = normal(random);
        for (auto& g : bags) g = normal(random);
        if (s % 3 == 0) {
            table.update(ids, offsets, bags, {.gradient_scale = 0.5});
            shared.update(ids, offsets, bags, {.gradient_scale = 0.5});
        } else {
            table.update(ids, gradient);
            shared.update(ids, gradient);
        }
        auto const a = table.row(s % rows), b = shared.row(s % rows);
        REQUIRE(std::memcmp(a.data(), b.data(), width * sizeof(float)) == 0);
    }
    auto const a = table.values();
    shared.alone([&](auto& other) {
        CHECK(std::memcmp(a.data(), other.values().data(), a.size_bytes()) == 0);
        CHECK(other.clock() == table.clock());
    });
}

TEST_CASE("striped: what it refuses leaves everything as it was") {
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1});
    gs::striped shared{gs::table{optimizer, rows, width, gs::exact{}, {.initial = 1.0}}};
    std::vector<float> gradient(width, 1.0f);
    std::vector<std::int64_t> const outside{rows}, inside{3};
    CHECK_THROWS_AS(shared.update(outside, gradient), gs::value_error);
    CHECK_THROWS_AS(shared.update(inside, std::vector<float>(width + 1)), gs::size_error);
    CHECK_THROWS_AS(shared.update(inside, gradient, {.rate = -1.0}), gs::value_error);
    CHECK_THROWS_AS(shared.row(rows), gs::value_error);
    CHECK(refusal<gs::value_error>([&] {
              gs::striped{gs::table{optimizer, rows, width}, 0};
          }) == "striped: stripes: 0 is out of range; expected [1, 2147483648]");
    CHECK_THROWS_AS((gs::striped{gs::table{optimizer, rows, width}, ~std::size_t(0)}), gs::value_error);
    CHECK(shared.clock().step == 0);
    CHECK(shared.row(3)[0] == 1);
    shared.update(inside, gradient, {.zero_gradient = true});
    CHECK(shared.clock().step == 1);
    CHECK(shared.row(3)[0] != 1);
    CHECK(gradient == std::vector<float>(width));
}

// std::shared_mutex lets readers overtake a writer: with 3 to 16 busy writers alone had not run
// after 30 s.
TEST_CASE("striped: alone waits for one call of every other thread, however busy they are") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1.0});
    std::size_t const writers = GENERATE(std::size_t{3}, std::size_t{16});
    gs::striped shared{gs::table{optimizer, rows, width}};
    busy_writers others(shared, writers, 20'000'000); // some seconds
    std::vector<int> most_calls;
    for (int round = 0; round < 31; ++round) {
        std::this_thread::yield();
        auto const before = others.calls();
        most_calls.push_back(shared.alone([&](auto& table) {
            auto const during = others.calls();
            std::int64_t const step = table.clock().step;
            for (int k = 0; k < 20; ++k) std::this_thread::yield();
            REQUIRE(table.clock().step == step); // by itself
            int most = 0;
            for (std::size_t k = 0; k < writers; ++k) most = std::max(most, during[k] - before[k]);
            return most;
        }));
    }
    others.stop();
    CHECK(!others.waited_for());
    // A call that had returned and was not counted yet, and the one under way. In some rounds the
    // thread may lose its core before it has asked, not in half of them.
    CHECK(median(most_calls) <= 2);
}

TEST_CASE("striped: an update waits for one alone, however many threads want to be alone") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1.0});
    gs::striped shared{gs::table{optimizer, rows, width}};
    std::atomic<bool> stop = false;
    std::atomic<int> alone = 0, inside = 0, together = 0;
    std::vector<std::thread> threads;
    for (int k = 0; k < 3; ++k)
        threads.emplace_back([&] {
            while (!stop)
                shared.alone([&](auto& table) {
                    together += inside++ != 0;
                    table.flush();
                    ++alone;
                    --inside;
                });
        });
    while (alone == 0) std::this_thread::yield();
    std::vector<std::int64_t> const ids{1, 5};
    std::vector<float> const gradient(2 * width, -1.0f);
    std::vector<int> waited;
    for (int s = 0; s < 301; ++s) {
        int const before = alone;
        shared.update(ids, gradient);
        waited.push_back(alone - before);
    }
    stop = true;
    for (auto& thread : threads) thread.join();
    CHECK(together == 0);
    CHECK(shared.row(5)[0] == 301);
    // The one that held the gate, and one that had run but not counted itself when the call began.
    // In some rounds this thread may lose its core before or after the call, not in half of them.
    CHECK(median(waited) <= 2);
}

TEST_CASE("striped: alone returns what f returns, and lets the others go on when f throws") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1.0});
    gs::striped shared{gs::table{optimizer, rows, width}};
    std::vector<std::int64_t> const ids{5};
    std::vector<float> const gradient(width, -1.0f);
    CHECK_THROWS_AS(shared.alone([](auto&) -> int { throw std::runtime_error("of the user"); }), std::runtime_error);
    shared.update(ids, gradient);
    CHECK(shared.alone([&](auto& table) { return table.row(5)[0]; }) == 1);
    shared.alone([](auto& table) { table.grow(2 * rows); });
    CHECK(shared.num_rows() == 2 * rows);
}

// Under the thread sanitizer: clock() read what update wrote inside of alone.
TEST_CASE("striped: the shape and the clock may be asked for while another thread is alone") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1.0});
    gs::striped shared{gs::table{optimizer, rows, width}};
    std::vector<int> wrong(4);
    on_threads(4, [&](int k) {
        std::vector<std::int64_t> const ids{1, 5};
        std::vector<float> const gradient(2 * width, -1.0f);
        for (int s = 0; s < 200; ++s) {
            if (k == 0) shared.alone([&](auto& table) { table.update(ids, gradient); });
            if (k == 1) shared.update(ids, gradient);
            if (k == 2) shared.alone([&](auto& table) { table.grow(rows + s); });
            if (k == 3) {
                auto const step = shared.clock().step;
                auto const num_rows = shared.num_rows();
                wrong[3] += shared.clock().step < step || shared.num_rows() < num_rows || shared.width() != width;
            }
        }
    });
    CHECK(wrong == std::vector<int>(4));
    CHECK(shared.clock().step == 400);
    CHECK(shared.row(5)[0] == 400);
}

// The memory of the caller: what a table with several writers does.
TEST_CASE("striped: rows of the caller's memory lose no update of several writers") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{0.125});
    std::vector<float> values(rows * width);
    gs::row_updater updater{optimizer, rows, width};
    auto const memory = updater.memory(values);
    gs::striped shared{std::move(updater), memory};
    constexpr int writers = 4, steps = 300, batch = 8;
    std::vector<std::vector<double>> named(writers, std::vector<double>(rows));
    std::vector<int> torn(writers);
    on_threads(writers, [&](int k) {
        std::mt19937 random(static_cast<unsigned>(k));
        std::vector<std::int32_t> ids(batch);
        std::vector<float> const gradient(batch * width, -1.0f);
        for (int s = 0; s < steps; ++s) {
            for (auto& id : ids) {
                id = static_cast<std::int32_t>(random() % 8); // few rows, so that writers meet
                named[static_cast<std::size_t>(k)][static_cast<std::size_t>(id)] += 1;
            }
            shared.update(ids, gradient);
            auto const row = shared.row(ids[0]);
            for (float const w : row) torn[static_cast<std::size_t>(k)] += w != row[0];
        }
    });
    CHECK(torn == std::vector<int>(writers));
    CHECK(shared.clock().step == writers * steps);
    for (std::size_t r = 0; r < rows; ++r) {
        double times = 0;
        for (auto const& of_writer : named) times += of_writer[r];
        for (std::size_t i = 0; i < width; ++i) REQUIRE(static_cast<double>(values[r * width + i]) == times / 8);
    }
}

TEST_CASE("striped: with one writer the bits of the caller's memory are those of a table") {
    auto const optimizer = gs::make_updater<float>(gs::momentum{}, gs::l2{0.01}, gs::cosine{.rate = 0.1, .steps = 100});
    for (std::size_t const columns : {std::size_t{4}, width}) {
        gs::table_options const options{.initial = gs::uniform{-1, 1, 7}, .max_history = 32};
        gs::table table{optimizer, rows, columns, gs::exact{}, options};
        std::vector<float> values(table.values().begin(), table.values().end()), m(rows * columns);
        std::vector<std::uint32_t> stamps(rows);
        gs::row_updater updater{optimizer, rows, columns, gs::exact{}, options};
        auto const memory = updater.memory(values, m, stamps);
        updater.initialize(memory);
        gs::striped shared{std::move(updater), memory};
        std::mt19937 random(3);
        std::normal_distribution<float> normal;
        std::vector<std::int32_t> ids(6);
        std::vector<std::int32_t> const offsets{0, 2};
        std::vector<float> gradient(6 * columns), bags(2 * columns);
        for (int s = 0; s < 200; ++s) {
            for (auto& id : ids) id = static_cast<std::int32_t>(random() % 20);
            for (auto& g : gradient) g = normal(random);
            for (auto& g : bags) g = normal(random);
            if (s % 3 == 0) {
                table.update(ids, offsets, bags, {.gradient_scale = 0.5});
                shared.update(ids, offsets, bags, {.gradient_scale = 0.5});
            } else {
                table.update(ids, gradient);
                shared.update(ids, gradient);
            }
            REQUIRE(table.row(s % rows) == shared.row(s % rows));
        }
        CHECK(shared.clock() == table.clock());
        shared.alone([](auto& held, auto const& memory) { held.flush(memory); });
        auto const expected = table.values();
        CHECK(std::memcmp(values.data(), expected.data(), expected.size_bytes()) == 0);
    }
}

TEST_CASE("striped: rows of the caller's memory grow and move while a call is alone") {
    auto const optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1.0});
    std::vector<float> values(rows * width);
    gs::row_updater updater{optimizer, rows, width};
    auto const memory = updater.memory(values);
    gs::striped shared{std::move(updater), memory, 5};
    std::vector<std::int64_t> const first{5}, added{rows + 3};
    std::vector<float> const gradient(width, -1.0f);
    shared.update(first, gradient);
    CHECK_THROWS_AS(shared.update(added, gradient), gs::value_error);
    shared.alone([&](auto& of, auto& memory) {
        values.resize(2 * rows * width); // moves them
        of.grow(2 * rows);
        memory = of.memory(values);
        of.initialize(memory, rows);
    });
    CHECK(shared.num_rows() == 2 * rows);
    shared.update(added, gradient);
    shared.update(first, gradient);
    CHECK(shared.row(rows + 3) == std::vector<float>(width, 1));
    CHECK(values[5 * width] == 2);

    // A memory that does not hold the rows is refused before anything is written.
    shared.alone([](auto& of, auto&) { of.grow(3 * rows); });
    CHECK_THROWS_AS(shared.update(first, gradient), gs::size_error);
    CHECK_THROWS_AS(shared.row(5), gs::size_error);
    CHECK(shared.clock().step == 3);
    CHECK(values[5 * width] == 2);
    gs::row_updater longer{optimizer, 4 * rows, width};
    CHECK_THROWS_AS((gs::striped{longer, memory}), gs::size_error);
}
