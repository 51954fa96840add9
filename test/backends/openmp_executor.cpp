// openmp_executor: every part once, wherever in an OpenMP program the call is made.
#include <gradstep/backends/openmp_executor.hpp>

#include <cstdint>

#include "backends/executors.hpp"
#include "support/refusal.hpp"
#include "support/sanitizers.hpp"

#if defined(UNDER_ADDRESS_SANITIZER)
// libomp keeps what it had for each thread until the program ends.
extern "C" char const* __lsan_default_suppressions();                               // NOLINT
extern "C" char const* __lsan_default_suppressions() { return "leak:libomp.so\n"; } // NOLINT
#endif

namespace {

// OpenMP's settings of this thread, put back at the end of a test.
struct openmp_settings {
    int const threads = omp_get_max_threads(), levels = omp_get_max_active_levels(), dynamic = omp_get_dynamic();
    openmp_settings() = default;
    openmp_settings(openmp_settings const&) = delete;
    ~openmp_settings() {
        omp_set_num_threads(threads);
        omp_set_max_active_levels(levels);
        omp_set_dynamic(dynamic);
    }
};

} // namespace

TEST_CASE("OpenMP runs every part once", "[executors][openmp]") {
    std::size_t const threads = GENERATE(from_range(thread_counts));
    gs::openmp_executor executor(threads);
    CHECK(executor.concurrency() == threads);
    check_each_part_once(executor);
    check_many_calls(executor);
    check_calls_inside_itself(executor);
    check_calls_from_several_threads(executor);
}

TEST_CASE("steps on OpenMP have the bits of one thread", "[executors][openmp]") {
    gs::openmp_executor executor(GENERATE(from_range(thread_counts)));
    check_bits(executor);
}

TEST_CASE("each thread of OpenMP's team runs its share of the parts, the same in every call", "[executors][openmp]") {
    openmp_settings const restored;
    omp_set_dynamic(0); // the team is as large as asked for
    gs::openmp_executor executor(3);
    for (int call = 0; call < 3; ++call) {
        std::vector<int> thread_of(7, -1);
        executor.run(7, [&](std::size_t part) { thread_of[part] = omp_get_thread_num(); });
        CHECK(thread_of == std::vector{0, 1, 2, 0, 1, 2, 0});
    }
}

TEST_CASE("without a number the team is as large as the host says at each call", "[executors][openmp]") {
    openmp_settings const restored;
    gs::openmp_executor executor;
    for (int threads : {1, 2, 5}) {
        omp_set_num_threads(threads);
        CHECK(executor.concurrency() == static_cast<std::size_t>(threads));
        CHECK(gs::openmp_executor(0).concurrency() == static_cast<std::size_t>(threads));
        check_each_part_once(executor);
    }
}

TEST_CASE("inside a parallel region everything runs on the caller's thread", "[executors][openmp]") {
    openmp_settings const restored;
    omp_set_max_active_levels(1);
    tensor const reference = trained_on(gs::serial_backend{}, many_elements);
    gs::openmp_executor executor(3);
    int wrong = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    {
        int const caller = omp_get_thread_num();
        wrong += executor.concurrency() != 1;
        wrong += counts_of(executor, 5) != ones(5);
        executor.run(5, [&](std::size_t) { wrong += omp_get_level() != 1 || omp_get_thread_num() != caller; });
        wrong += !same_bits(trained_on(gs::simd_backend{executor}, many_elements), reference);
    }
    CHECK(wrong == 0);
}

TEST_CASE("inside a parallel region that may nest there are teams inside the team", "[executors][openmp]") {
    openmp_settings const restored;
    omp_set_max_active_levels(2);
    gs::openmp_executor executor(3);
    int wrong = 0;
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    {
        wrong += executor.concurrency() != 3;
        wrong += counts_of(executor, 5) != ones(5);
    }
    CHECK(wrong == 0);
}

TEST_CASE("a number of threads that OpenMP cannot have is refused", "[executors][openmp]") {
    auto const refused = [](auto threads) {
        return refusal<gs::value_error>([=] { gs::openmp_executor executor(threads); });
    };
    CHECK(refused(-1) == "openmp_executor: threads: -1 is out of range; expected [0, 65535]");
    CHECK(refused(65536) == "openmp_executor: threads: 65536 is out of range; expected [0, 65535]");
    CHECK(refused(SIZE_MAX) == "openmp_executor: threads: 18446744073709551615 is out of range; expected [0, 65535]");
    CHECK(gs::openmp_executor(65535u).concurrency() == 65535);
}

#if defined(__SSE2__)
TEST_CASE("subnormals are flushed on OpenMP's threads in the kernel alone", "[executors][openmp]") {
    gs::openmp_executor executor(3);
    check_flush_on_every_thread(executor);
}
#endif

#if !defined(UNDER_THREAD_SANITIZER)
TEST_CASE("A child of fork runs OpenMP's parts on one thread, and does not "
          "wait for threads that it has not",
          "[executors][openmp]") {
    gs::openmp_executor executor(4);
    check_a_child_of_fork(executor);
    CHECK(executor.concurrency() == 4);
}
#endif
