// The work memory of rules that use shapes, which the steps of several threads share.
#include <gradstep/matrix/detail/matrix_memory.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace gs = gradstep;

namespace {

using gs::detail::matrix_memory;
constexpr std::size_t bytes = 1000;

} // namespace

TEST_CASE("matrix_memory: a block that came back is taken again", "[core]") {
    matrix_memory memory;
    memory.reserve(bytes);
    auto first = memory.take(bytes);
    auto const* const address = first->data();
    auto second = memory.take(bytes / 2);
    CHECK(second->data() != address);
    memory.give_back(std::move(first));
    CHECK(memory.take(bytes)->data() == address);
}

TEST_CASE("matrix_memory: no two threads have the same block", "[core]") {
    matrix_memory memory;
    memory.reserve(bytes);
    std::atomic<std::size_t> shared = 0;
    std::vector<std::thread> threads;
    for (unsigned k = 0; k < 4; ++k)
        threads.emplace_back([&, own = std::byte(k)] {
            for (std::size_t i = 1; i <= 300; ++i) {
                auto block = memory.take(i);
                std::ranges::fill(*block, own);
                std::this_thread::yield();
                shared += static_cast<std::size_t>(std::ranges::count_if(*block, [&](auto x) { return x != own; }));
                memory.give_back(std::move(block));
            }
        });
    for (auto& each : threads) each.join();
    CHECK(shared == 0);
}

#if COUNTS_ALLOCATIONS
TEST_CASE("matrix_memory: without memory for another block, a step waits for the one that has it", "[core]") {
    matrix_memory memory;
    memory.reserve(bytes);
    auto only = memory.take(bytes);
    auto const* const address = only->data();
    std::atomic<bool> begins = false;
    std::atomic<std::byte const*> taken = nullptr;
    std::thread other([&] { // begins to run before allocations fail, since a thread needs some
        begins.wait(false);
        auto block = memory.take(bytes);
        taken = block->data();
        memory.give_back(std::move(block));
    });
    allocations_keep_failing = true;
    allocations_until_failure = 0;
    begins = true;
    begins.notify_one();
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // a wrong step would have what it wants by now
    auto const* const early = taken.load();
    bool refused = false; // another reservation does not wait, since its step has not begun
    try {
        memory.reserve(2 * bytes);
    } catch (std::bad_alloc const&) {
        refused = true;
    }
    memory.give_back(std::move(only));
    other.join();
    allocations_keep_failing = false;
    allocations_until_failure = SIZE_MAX;
    CHECK(early == nullptr);
    CHECK(taken.load() == address);
    CHECK(refused);
}
#endif
