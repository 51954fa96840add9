#pragma once
/// What holds for an executor whose threads belong to the host.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace gs = gradstep;

inline constexpr std::array<std::size_t, 4> thread_counts{1, 2, 3, 7};

/// How often each part of a run was done.
template <class Executor> std::vector<int> counts_of(Executor& executor, std::size_t parts) {
    std::vector<std::atomic<int>> counts(parts);
    executor.run(parts, [&](std::size_t part) { counts[part].fetch_add(1, std::memory_order_relaxed); });
    return {counts.begin(), counts.end()};
}
inline std::vector<int> ones(std::size_t n) { return std::vector<int>(n, 1); }

template <class Executor> void check_each_part_once(Executor& executor) {
    for (std::size_t parts : {0u, 1u, 2u, 3u, 6u, 7u, 8u, 100u}) CHECK(counts_of(executor, parts) == ones(parts));
}

/// What one run writes the caller and the next run see, on whatever threads.
template <class Executor> void check_many_calls(Executor& executor) {
    std::vector<std::size_t> sums(3); // no atomics
    for (std::size_t i = 0; i < 2000; ++i) {
        executor.run(3, [&](std::size_t part) { sums[(part + i) % 3] += part; });
        if (sums[0] + sums[1] + sums[2] != (i + 1) * (0 + 1 + 2)) FAIL("call " << i << " was not seen");
    }
}

template <class Executor> void check_calls_inside_itself(Executor& executor) {
    std::atomic<int> inner = 0;
    executor.run(6, [&](std::size_t) { executor.run(5, [&](std::size_t) { inner.fetch_add(1); }); });
    CHECK(inner == 30);
    CHECK(counts_of(executor, 7) == ones(7));
}

template <class Executor> void check_calls_from_several_threads(Executor& executor) {
    std::vector<std::thread> callers;
    std::vector<int> wrong(4);
    for (int& mine : wrong)
        callers.emplace_back([&] {
            for (int i = 0; i < 200; ++i) mine += counts_of(executor, 5) != ones(5);
        });
    for (std::thread& caller : callers) caller.join();
    CHECK(wrong == std::vector<int>(4));
}

/// A child of fork, which has no thread of its parent, runs everything on the thread that calls.
template <class Executor> void check_a_child_of_fork(Executor& executor) {
    check_each_part_once(executor);
    pid_t const child = fork();
    REQUIRE(child >= 0);
    if (child == 0) { // without Catch
        alarm(60);
        std::size_t parts = 0;
        bool const is_alone = executor.concurrency() == 1;
        executor.run(100, [&](std::size_t) { ++parts; });
        _exit(is_alone && parts == 100 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

/// Three steps of Adam on n elements.
template <class Backend> tensor trained_on(Backend const& backend, std::size_t n) {
    tensor x(n);
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.125}, backend);
    for (int i = 0; i < 3; ++i) optimizer.next_step()(x.w, x.g, x.m, x.v);
    return x;
}

/// 2.8 MB a step: as many parts as the executor has threads, up to ten.
inline constexpr std::size_t many_elements = 100'003;

template <class Executor> void check_bits(Executor& executor) {
    tensor const reference = trained_on(gs::serial_backend{}, many_elements);
    CHECK(same_bits(trained_on(gs::simd_backend{executor}, many_elements), reference));

    std::vector<tensor> results(3, tensor(0));
    std::vector<std::thread> callers;
    for (tensor& result : results)
        callers.emplace_back([&] { result = trained_on(gs::simd_backend{executor}, many_elements); });
    for (std::thread& caller : callers) caller.join();
    for (tensor const& result : results) CHECK(same_bits(result, reference));
}

#if defined(__SSE2__)
inline constexpr unsigned flush_bits = 0x8040;
inline unsigned floating_point_mode() { return _mm_getcsr() & ~0x3fu; } // without the flags of what has happened

/// Subnormals are flushed on every thread that runs a part, and each of them has its own mode back
/// afterwards.
template <class Executor> void check_flush_on_every_thread(Executor& executor) {
    float const tiny = std::numeric_limits<float>::denorm_min() * 100;
    auto const step_of_tiny_gradients = [&](gs::subnormals mode) {
        std::vector<float> w(many_elements), g(many_elements, tiny);
        gs::make_updater<float>(gs::sgd{}, gs::constant{1}, gs::simd_backend{executor, mode}).next_step()(w, g);
        return w;
    };
    CHECK(same_bits(step_of_tiny_gradients(gs::subnormals::keep), std::vector<float>(many_elements, -tiny)));
    CHECK(same_bits(step_of_tiny_gradients(gs::subnormals::flush), std::vector<float>(many_elements, 0)));
    CHECK(same_bits(step_of_tiny_gradients(gs::subnormals::keep), std::vector<float>(many_elements, -tiny)));
}
#endif
