#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <distributed/communicator_properties.hpp>
#include <gradstep/distributed/threads.hpp>
#include <support/allocations.hpp>
#include <support/catch.hpp>

namespace gd = gradstep::distributed;
namespace properties = communicator_properties;
using namespace std::chrono_literals;

TEST_CASE("one to eight ranks that are threads add up, gather and send", "[distributed]") {
    for (int p = 1; p <= 8; ++p) {
        INFO(p << " ranks");
        REQUIRE_NOTHROW(gd::thread_ranks(p).run([](auto& by) { properties::all(by); }));
    }
}

TEST_CASE("several threads of one rank send and exchange at once", "[distributed]") {
    gd::thread_ranks(3).run([](gd::thread_communicator& by) {
        std::vector<std::thread> threads;
        std::exception_ptr failures[4];
        for (int channel = 0; channel != 4; ++channel)
            threads.emplace_back([&, channel] {
                failures[channel] = gradstep::detail::exception_of([&] {
                    auto values = properties::array<float>(9000, by.rank());
                    for (int k = 0; k != 3; ++k) {
                        auto sums = gd::begin_all_reduce(by, channel, std::span(values), gd::reduction::mean);
                        gd::finish(by, sums, "sums");
                    }
                    by.send(0, std::vector<std::byte>(100));
                    if (by.rank() == 0)
                        for (int k = 0; k != 3; ++k)
                            on_ranks::require(by.receive(60s).has_value(), "a message is missing");
                });
            });
        for (auto& thread : threads) thread.join();
        for (auto const& failure : failures)
            if (failure) std::rethrow_exception(failure);
    });
}

TEST_CASE("a rank that dies is named at once, and what it died of is what is thrown", "[distributed][failure]") {
    gd::thread_ranks ranks(4, 600s);
    std::atomic<int> told = 0;
    auto const begin = std::chrono::steady_clock::now();
    REQUIRE_THROWS_WITH(ranks.run([&](gd::thread_communicator& by) {
        if (by.rank() == 2) throw std::runtime_error("out of luck");
        auto barrier = gd::begin_barrier(by, 0);
        auto const sentence = on_ranks::refusal<gd::rank_error>([&] { gd::finish(by, barrier, "the barrier"); });
        on_ranks::require_contains(sentence, "rank 2 has ended");
        ++told;
    }),
                        "out of luck");
    CHECK(told == 3);
    CHECK(std::chrono::steady_clock::now() - begin < 300s); // not by the timeout
}

TEST_CASE("silent ranks are named after the timeout, with what was waited for", "[distributed][failure]") {
    gd::thread_ranks ranks(4, 200ms);
    std::atomic<int> told = 0;
    ranks.run([&](gd::thread_communicator& by) {
        if (by.rank() % 2 == 1) {
            while (told != 2) std::this_thread::yield(); // lives, and says nothing
            return;
        }
        std::vector<float> values(10'000);
        auto sums = gd::begin_all_reduce(by, 7, std::span(values), gd::reduction::sum);
        auto const sentence = on_ranks::refusal<gd::rank_error>([&] { gd::finish(by, sums, "the gradient of w"); });
        on_ranks::require_contains(sentence,
                                   "rank " + std::to_string(by.rank()) +
                                       ": the gradient of w: rank 1, rank 3 have not taken part within 200 ms");
        ++told;
    });
    CHECK(told == 2);
}

TEST_CASE("ranks that exchange different lengths are told both", "[distributed][failure]") {
    gd::thread_ranks(2).run([](gd::thread_communicator& by) {
        std::vector<std::byte> bytes(by.rank() == 0 ? 100 : 200);
        std::vector<std::span<std::byte const>> const to(2, std::span<std::byte const>(bytes));
        std::vector<std::byte> other(bytes.size());
        std::vector<std::span<std::byte>> from(2, std::span(other));
        auto pending = by.exchange(0, to, from);
        auto const sentence = on_ranks::refusal<gradstep::value_error>([&] { gd::finish(by, pending, "pieces"); });
        on_ranks::require_contains(sentence, by.rank() == 0 ? "rank 1 has sent 200 bytes; expected 100 bytes"
                                                            : "rank 0 has sent 100 bytes; expected 200 bytes");
        auto barrier = gd::begin_barrier(by, 1); // no rank leaves before all have looked
        gd::finish(by, barrier, "the barrier");
    });
}

TEST_CASE("a rank that has ended may begin again, and gets what is sent from then on", "[distributed][failure]") {
    gd::thread_ranks ranks(2);
    auto first = ranks.begin(0);
    {
        auto second = ranks.begin(1);
        CHECK_THROWS_WITH(ranks.begin(1),
                          ContainsSubstring("begin: rank 1 has not ended; expected a rank that has ended"));
        first.send(1, std::vector<std::byte>(1));
        second.send(0, std::vector<std::byte>(2));
    }
    first.send(1, std::vector<std::byte>(3)); // lost: there is no receiver
    auto again = ranks.begin(1);
    first.send(1, std::vector<std::byte>(4));
    CHECK(again.receive(0ms)->bytes.size() == 4);
    CHECK(!again.receive(1ms));
    CHECK(first.receive(0ms)->bytes.size() == 2); // what it had sent has been sent
    auto barrier = gd::begin_barrier(first, 0);
    CHECK_THROWS_AS(gd::finish(first, barrier, "the barrier"), gd::rank_error);
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("an exchange whose memory fails has sent nothing, and may begin again", "[distributed][failure]") {
    gd::thread_ranks ranks(2);
    auto here = ranks.begin(0), there = ranks.begin(1);
    std::size_t failed = 0;
    for (char const letter : {'a', 'b'}) {
        std::vector<char> own(100, letter), sent(100, static_cast<char>(letter + 2)), got_here(100), got_there(100);
        auto const exchange = [](auto& by, std::vector<char>& mine, std::vector<char>& theirs) {
            std::vector<std::span<std::byte const>> to(2);
            std::vector<std::span<std::byte>> from(2);
            auto const other = static_cast<std::size_t>(1 - by.rank());
            to[other] = std::as_bytes(std::span(mine)), from[other] = std::as_writable_bytes(std::span(theirs));
            return by.exchange(3, to, from);
        };
        std::optional<gd::thread_communicator::exchange_type> pending;
        for (std::size_t until = 0; !pending; ++until) {
            allocations_until_failure = until;
            try {
                pending.emplace(exchange(here, own, got_here));
            } catch (std::bad_alloc const&) {
                ++failed;
            }
            allocations_until_failure = SIZE_MAX;
        }
        auto answer = exchange(there, sent, got_there);
        CHECK(pending->test());
        CHECK(answer.test());
        CHECK(got_here == sent);
        CHECK(got_there == own);
    }
    CHECK(failed > 10);
}
#endif

TEST_CASE("ranks that there cannot be are refused", "[distributed][failure]") {
    CHECK_THROWS_WITH(gd::thread_ranks(0), ContainsSubstring("size: 0 is out of range; expected >= 1"));
    CHECK_THROWS_WITH(gd::thread_ranks(1, -1ms), ContainsSubstring("timeout: -1 ms is out of range; expected >= 0"));
    gd::thread_ranks ranks(2);
    CHECK_THROWS_WITH(ranks.begin(2), ContainsSubstring("there is no rank 2; expected [0, 2)"));
}

namespace {

// A transport without other ranks, which continues to use the memory that it was told to keep.
struct deserted_communicator {
    struct exchange_type {
        deserted_communicator* by;

        bool test() { return false; }
        std::vector<int> missing() const { return {1}; }
        void keep(std::shared_ptr<void const> memory) { by->kept = std::move(memory); }
    };
    std::shared_ptr<void const> kept;
    std::vector<std::span<std::byte>> receiving;

    int rank() const { return 0; }
    int size() const { return 2; }
    std::chrono::milliseconds timeout() const { return 0ms; }
    bool allows_threads() const { return false; }
    void send(int, std::vector<std::byte>) {}
    std::optional<gd::message> receive(std::chrono::milliseconds) { return {}; }
    exchange_type exchange(int, std::span<std::span<std::byte const> const>,
                           std::span<std::span<std::byte> const> from) {
        receiving.assign(from.begin(), from.end());
        return {this};
    }
};

} // namespace

TEST_CASE("what is received for a collective that is given up has memory for as long", "[distributed][failure]") {
    deserted_communicator by;
    auto const gives_up = [&](std::size_t bytes, auto const& begin) {
        {
            auto pending = begin();
            REQUIRE_THROWS_AS(gd::finish(by, pending, "a collective"), gd::rank_error);
        }
        REQUIRE(by.kept != nullptr);
        REQUIRE(by.receiving[1].size() == bytes);
        std::ranges::fill(by.receiving[1], std::byte{1}); // the address sanitizer looks at it
        by.kept.reset();
    };
    auto owner = std::make_shared<std::vector<float>>(9000);
    std::span<float> const values(*owner), shard = values.first(8192); // of rank 0
    gives_up(shard.size_bytes(), [&] {
        return gd::begin_reduce_scatter(by, 1, std::span<float const>(values), shard, gd::reduction::sum, owner);
    });
    gives_up(shard.size_bytes(), [&] { return gd::begin_all_reduce(by, 1, values, gd::reduction::sum, owner); });
    gives_up(values.size_bytes() - shard.size_bytes(), [&] { return gd::begin_all_gather(by, 1, values, owner); });
    gives_up(sizeof(std::uint64_t), [&] { return gd::begin_all_gather(by, 1, std::vector<std::byte>(100)); });
    // Besides the memory of the exchange, it keeps the owner that the caller passes.
    std::weak_ptr<std::vector<float>> const owned = owner;
    {
        auto const pending = gd::begin_reduce_scatter(by, 1, std::span<float const>(values), shard, gd::reduction::sum,
                                                      std::exchange(owner, nullptr));
    }
    CHECK_FALSE(owned.expired());
    by.kept.reset();
    CHECK(owned.expired());
}
