// The executors: every part once, whatever happens around them. Run under the thread sanitizer.
#include <gradstep/gradstep.hpp>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// How often each part of a run was done.
template <class Executor> std::vector<int> counts_of(Executor& executor, std::size_t parts) {
    std::vector<std::atomic<int>> counts(parts);
    executor.run(parts, [&](std::size_t part) { counts[part].fetch_add(1, std::memory_order_relaxed); });
    return {counts.begin(), counts.end()};
}
std::vector<int> ones(std::size_t n) { return std::vector<int>(n, 1); }

} // namespace

TEST_CASE("a pool runs every part once", "[backends][threads]") {
    for (std::size_t threads : {1u, 2u, 3u, 7u}) {
        gs::thread_pool pool(threads);
        CHECK(pool.concurrency() == threads);
        for (std::size_t parts : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 100u}) CHECK(counts_of(pool, parts) == ones(parts));
    }
}

TEST_CASE("a pool is used thousands of times", "[backends][threads]") {
    gs::thread_pool pool(3);
    std::vector<std::size_t> sums(3); // no atomics: what one run writes, the next one reads on other threads
    for (std::size_t i = 0; i < 5000; ++i) pool.run(3, [&](std::size_t part) { sums[(part + i) % 3] += part; });
    CHECK(sums[0] + sums[1] + sums[2] == 5000 * (0 + 1 + 2));
}

TEST_CASE("a pool wakes its threads after they slept", "[backends][threads]") {
    gs::thread_pool pool(2);
    for (int i = 0; i < 5; ++i) {
        CHECK(counts_of(pool, 4) == ones(4));
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
}

TEST_CASE("a pool calls itself", "[backends][threads]") {
    gs::thread_pool pool(3);
    std::atomic<int> inner = 0;
    pool.run(6, [&](std::size_t) { pool.run(5, [&](std::size_t) { inner.fetch_add(1); }); });
    CHECK(inner == 30);
    CHECK(counts_of(pool, 7) == ones(7));
}

TEST_CASE("a pool takes calls from several threads at once", "[backends][threads]") {
    gs::thread_pool pool(3);
    std::vector<std::thread> callers;
    std::vector<int> wrong(4);
    for (std::size_t caller = 0; caller < wrong.size(); ++caller)
        callers.emplace_back([&, caller] {
            for (int i = 0; i < 500; ++i) wrong[caller] += counts_of(pool, 5) != ones(5);
        });
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("a pool is destroyed idle, used or not", "[backends][threads]") {
    for (int i = 0; i < 50; ++i) {
        gs::thread_pool unused(3);
        gs::thread_pool used(2);
        CHECK(counts_of(used, 2) == ones(2));
        if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1)); // its threads sleep
    }
}

TEST_CASE("a pool of one thread runs on its caller", "[backends]") {
    gs::thread_pool pool(1);
    auto const caller = std::this_thread::get_id();
    bool elsewhere = false;
    pool.run(5, [&](std::size_t) { elsewhere |= std::this_thread::get_id() != caller; });
    CHECK(!elsewhere);
}

TEST_CASE("a pool of no threads, or of more than there are, is refused", "[backends]") {
    CHECK(refusal<gs::value_error>([] { gs::thread_pool pool(0); }) ==
          "thread_pool: threads = 0: must be in [1, 65535]");
    CHECK(refusal<gs::value_error>([] { gs::thread_pool pool(-1); }) ==
          "thread_pool: threads = -1: must be in [1, 65535]");
    CHECK(refusal<gs::value_error>([] { gs::thread_pool pool(std::size_t(65536)); }) ==
          "thread_pool: threads = 65536: must be in [1, 65535]");
    CHECK(gs::thread_pool().concurrency() >= 1);
}

TEST_CASE("a callback executor needs parts and a callback", "[backends]") {
    CHECK(refusal<gs::value_error>([] { gs::callback_executor(0, [](std::size_t, gs::task) {}); }) ==
          "callback_executor: concurrency = 0: must be >= 1");
    CHECK(refusal<gs::value_error>([] { gs::callback_executor(2, nullptr); }) ==
          "callback_executor: the callback is empty: give a function of (parts, work)");
}

TEST_CASE("a callback executor hands every part to the host", "[backends][threads]") {
    gs::callback_executor on_threads(4, [](std::size_t parts, gs::task work) {
        std::vector<std::thread> threads;
        for (std::size_t part = 0; part < parts; ++part) threads.emplace_back([=] { work(part); });
        for (std::thread& thread : threads) thread.join();
    });
    CHECK(on_threads.concurrency() == 4);
    for (std::size_t parts : {0u, 1u, 4u, 9u}) CHECK(counts_of(on_threads, parts) == ones(parts));
}

TEST_CASE("a host that does not run each part once is found out", "[backends]") {
    auto const refused = [](auto host, std::vector<int> const& expected) {
        gs::callback_executor executor(3, host);
        std::vector<int> counts(3);
        std::string text = refusal<gs::executor_error, std::runtime_error>(
            [&] { executor.run(3, [&](std::size_t part) { ++counts.at(part); }); });
        CHECK(counts == expected);
        return text;
    };
    CHECK(refused([](std::size_t, gs::task work) { work(0), work(2); }, {1, 0, 1}) ==
          "callback_executor: the host made 2 calls and ran 2 of 3 parts: must be each part once");
    CHECK(refused([](std::size_t, gs::task) {}, {0, 0, 0}) ==
          "callback_executor: the host made 0 calls and ran 0 of 3 parts: must be each part once");
    // A part that is asked for again, or does not exist, is not run.
    CHECK(refused([](std::size_t, gs::task work) { work(0), work(1), work(1); }, {1, 1, 0}) ==
          "callback_executor: the host made 3 calls and ran 2 of 3 parts: must be each part once");
    CHECK(refused([](std::size_t, gs::task work) { work(0), work(1), work(2), work(0); }, {1, 1, 1}) ==
          "callback_executor: the host made 4 calls and ran 3 of 3 parts: must be each part once");
    CHECK(refused([](std::size_t parts, gs::task work) { work(0), work(1), work(parts); }, {1, 1, 0}) ==
          "callback_executor: the host made 3 calls and ran 2 of 3 parts: must be each part once");
}

TEST_CASE("an exception of the host arrives as it is", "[backends]") {
    struct pool_is_closed {};
    gs::callback_executor host(3, [](std::size_t, gs::task work) {
        work(1);
        throw pool_is_closed{};
    });
    std::vector<int> counts(3);
    CHECK_THROWS_AS(host.run(3, [&](std::size_t part) { ++counts[part]; }), pool_is_closed);
    CHECK(counts == std::vector<int>{0, 1, 0});
}
