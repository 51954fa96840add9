// tbb_executor: every part once, in whatever arena or task the call is made.
#include <gradstep/backends/tbb_executor.hpp>

#include <chrono>
#include <cstdint>
#include <thread>

#include "backends/executors.hpp"
#include "support/refusal.hpp"
#include "support/sanitizers.hpp"

namespace {

// As many threads as the tests ask for, whatever the machine has.
tbb::global_control allow(std::size_t threads) { return {tbb::global_control::max_allowed_parallelism, threads}; }

} // namespace

TEST_CASE("TBB runs every part once", "[executors][tbb]") {
    std::size_t const threads = GENERATE(from_range(thread_counts));
    auto const allowed = allow(7);
    gs::tbb_executor executor(threads);
    CHECK(executor.concurrency() == threads);
    check_each_part_once(executor);
    check_many_calls(executor);
    check_calls_inside_itself(executor);
    check_calls_from_several_threads(executor);
}

TEST_CASE("steps on TBB have the bits of one thread", "[executors][tbb]") {
    auto const allowed = allow(7);
    gs::tbb_executor executor(GENERATE(from_range(thread_counts)));
    check_bits(executor);
}

TEST_CASE("without a number the caller's arena runs the parts", "[executors][tbb]") {
    auto const allowed = allow(7);
    gs::tbb_executor executor;
    check_each_part_once(executor);
    check_calls_inside_itself(executor);
    check_calls_from_several_threads(executor);
    check_bits(executor);

    for (int threads : {1, 2, 5}) {
        tbb::task_arena arena(threads);
        std::atomic<int> elsewhere = 0;
        arena.execute([&] {
            CHECK(executor.concurrency() == static_cast<std::size_t>(threads));
            CHECK(gs::tbb_executor(0).concurrency() == static_cast<std::size_t>(threads));
            executor.run(20, [&](std::size_t) { elsewhere += tbb::this_task_arena::max_concurrency() != threads; });
            check_each_part_once(executor);
        });
        CHECK(elsewhere == 0);
    }
}

TEST_CASE("an arena of its own runs the parts, wherever the caller is", "[executors][tbb]") {
    auto const allowed = allow(7);
    gs::tbb_executor executor(3);
    std::atomic<int> elsewhere = 0;
    auto const run = [&] {
        executor.run(20, [&](std::size_t) { elsewhere += tbb::this_task_arena::max_concurrency() != 3; });
        check_each_part_once(executor);
    };
    run();
    tbb::task_arena host(2);
    host.execute(run);
    host.execute([&] { tbb::parallel_for(0, 8, [&](int) { elsewhere += counts_of(executor, 5) != ones(5); }); });
    CHECK(elsewhere == 0);
}

TEST_CASE("TBB's limit for the process holds", "[executors][tbb]") {
    auto const allowed = allow(3);
    gs::tbb_executor executor(7);
    CHECK(executor.concurrency() == 3);
    check_each_part_once(executor);

    auto const one = allow(1);
    CHECK(executor.concurrency() == 1);
    auto const caller = std::this_thread::get_id();
    std::atomic<int> elsewhere = 0;
    executor.run(20, [&](std::size_t) { elsewhere += std::this_thread::get_id() != caller; });
    CHECK(elsewhere == 0);
}

TEST_CASE("a host that cancels its tasks leaves no part out", "[executors][tbb]") {
    auto const allowed = allow(3);
    gs::tbb_executor of_caller, own(3);
    tbb::task_group group;
    std::vector<int> counts_of_caller, counts_own;
    group.run_and_wait([&] {
        group.cancel();
        counts_of_caller = counts_of(of_caller, 100);
        counts_own = counts_of(own, 100);
    });
    CHECK(counts_of_caller == ones(100));
    CHECK(counts_own == ones(100));
}

TEST_CASE("a caller that waits runs no task of the host", "[executors][tbb]") {
    auto const allowed = allow(2);
    gs::tbb_executor executor;
    tbb::task_arena(2).execute([&] {
        static thread_local bool waits;
        std::atomic<int> tasks = 0, inside = 0;
        auto const pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
        for (int call = 0; call < 50; ++call) {
            tbb::task_group host;
            for (int i = 0; i < 10; ++i)
                host.run([&] {
                    ++tasks;
                    inside += waits;
                });
            waits = true;
            executor.run(2, [&](std::size_t) { pause(); });
            waits = false;
            host.wait();
        }
        CHECK(tasks == 500);
        CHECK(inside == 0);
    });
}

TEST_CASE("a number of threads that TBB cannot have is refused", "[executors][tbb]") {
    auto const refused = [](auto threads) {
        return refusal<gs::value_error>([=] { gs::tbb_executor executor(threads); });
    };
    CHECK(refused(-1) == "tbb_executor: threads: -1 is out of range; expected [0, 65535]");
    CHECK(refused(65536) == "tbb_executor: threads: 65536 is out of range; expected [0, 65535]");
    CHECK(refused(SIZE_MAX) == "tbb_executor: threads: 18446744073709551615 is out of range; expected [0, 65535]");
    auto const allowed = allow(2);
    gs::tbb_executor most(65535u);
    check_each_part_once(most);
}

#if defined(__SSE2__)
TEST_CASE("TBB runs the parts in the caller's floating-point mode", "[executors][tbb]") {
    auto const allowed = allow(3);
    gs::tbb_executor of_caller, own(3);
    check_flush_on_every_thread(of_caller);
    check_flush_on_every_thread(own);

    unsigned const mode = floating_point_mode();
    std::atomic<int> other = 0;
    _mm_setcsr(mode | flush_bits);
    auto const note = [&](std::size_t) { other += floating_point_mode() != (mode | flush_bits); };
    of_caller.run(20, note);
    own.run(20, note);
    unsigned const after = floating_point_mode();
    _mm_setcsr(mode);
    CHECK(other == 0);
    CHECK(after == (mode | flush_bits));
}
#endif

#if !defined(UNDER_THREAD_SANITIZER)
TEST_CASE("A child of fork runs TBB's parts on one thread", "[executors][tbb]") {
    auto const allowed = allow(7);
    gs::tbb_executor of_arena(4), of_caller;
    check_a_child_of_fork(of_arena);
    check_a_child_of_fork(of_caller);
    CHECK(of_arena.concurrency() == 4);
}
#endif
