#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <distributed/check.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/number/element.hpp>

/// What every communicator does, whatever the ranks are: test/distributed/communicators.cpp has
/// them as threads, mpi.cpp as processes.
namespace communicator_properties {
namespace gd = gradstep::distributed;
using namespace on_ranks;

// Numbers whose sums round.
template <class T> T element(std::size_t i, int rank) {
    std::uint64_t const bits =
        (i + 1) * 0x9e3779b97f4a7c15u ^ (static_cast<std::uint64_t>(rank) + 1) * 0xbf58476d1ce4e5b9u;
    if constexpr (std::is_integral_v<T>) return static_cast<T>(bits >> 3);
    else return T(static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-53 * 2 - 1));
}
template <class T> std::vector<T> array(std::size_t n, int rank) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i != n; ++i) out[i] = element<T>(i, rank);
    return out;
}
template <class T> bool same_bits(std::span<T const> x, std::span<T const> y) {
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size_bytes()) == 0);
}

// What one process makes of the arrays of all ranks, written as the definition is.
template <class T> std::vector<T> expected(std::size_t n, int ranks, gd::reduction which) {
    std::vector<T> out(n);
    for (std::size_t i = 0; i != n; ++i) {
        if constexpr (std::is_integral_v<T>) {
            std::uint64_t sum = 0;
            for (int r = 0; r != ranks; ++r) sum += static_cast<std::uint64_t>(element<T>(i, r));
            out[i] = static_cast<T>(sum);
        } else {
            auto sum = gradstep::detail::widen(element<T>(i, 0));
            for (int r = 1; r != ranks; ++r) sum += gradstep::detail::widen(element<T>(i, r));
            if (which == gd::reduction::mean) sum /= static_cast<decltype(sum)>(ranks);
            out[i] = T(sum);
        }
    }
    return out;
}

template <class T, class C> void adds_up(C& by, std::size_t n, gd::reduction which) {
    std::string const what =
        "elements of " + std::string(gradstep::element_traits<T>::name) + ", n = " + std::to_string(n);
    auto const mine = array<T>(n, by.rank()), wanted = expected<T>(n, by.size(), which);
    auto all = mine;
    auto whole = gd::begin_all_reduce(by, 5, std::span(all), which);
    auto const own = gd::shard_of_rank(n, by.size(), by.rank());
    std::vector<T> shard(own.size());
    auto part =
        gd::begin_reduce_scatter(by, 6, std::span<T const>(mine), std::span(shard), which); // both are on their way
    gd::finish(by, whole, what);
    gd::finish(by, part, what);
    require(same_bits<T>(all, wanted), "all-reduce of " + what);
    require(same_bits<T>(shard, std::span(wanted).subspan(own.first, own.size())), "reduce-scatter of " + what);
}

template <class C> void collectives(C& by) {
    for (std::size_t const n :
         {std::size_t(0), std::size_t(1), std::size_t(4096), std::size_t(4097), std::size_t(40'000)}) {
        adds_up<float>(by, n, gd::reduction::mean);
        adds_up<double>(by, n, gd::reduction::sum);
    }
    adds_up<gradstep::bfloat16>(by, 5000, gd::reduction::mean);
    adds_up<gradstep::float16>(by, 5000, gd::reduction::sum);
    adds_up<std::int32_t>(by, 5000, gd::reduction::sum);
    adds_up<std::int64_t>(by, 5000, gd::reduction::mean);

    // Strings of any length, more than one on its way on a channel.
    auto const string_of = [](int rank, std::size_t number) {
        return std::vector<std::byte>(static_cast<std::size_t>(rank) * 3 % 4 * 1000 + number,
                                      static_cast<std::byte>(rank));
    };
    auto first = gd::begin_all_gather(by, 1, string_of(by.rank(), 0));
    gd::finish(by, first, "strings");
    auto second = gd::begin_all_gather(by, 1, string_of(by.rank(), 1)),
         third = gd::begin_all_gather(by, 2, string_of(by.rank(), 2));
    gd::finish(by, third, "strings");
    gd::finish(by, second, "strings");
    std::vector<std::vector<std::byte>> const strings[] = {first.take(), second.take(), third.take()};
    for (std::size_t k = 0; k != 3; ++k)
        for (int r = 0; r != by.size(); ++r)
            require(strings[k][static_cast<std::size_t>(r)] == string_of(r, k), "string " + std::to_string(k));
}

// A barrier holds until the last rank has come, which tells the first.
template <class C> void barrier(C& by) {
    int const last = by.size() - 1;
    auto pending = gd::begin_barrier(by, 0);
    if (by.rank() != last) {
        gd::finish(by, pending, "the barrier");
        by.send(last, {});
    } else {
        for (int r = 0; r != last; ++r) require(by.receive(by.timeout()).has_value(), "a message after the barrier");
        gd::finish(by, pending, "the barrier");
    }
    auto again = gd::begin_barrier(by, 0); // no rank sends more before all have arrived
    gd::finish(by, again, "the barrier");
}

// Each rank sends numbered messages to all, of up to `most` bytes; they come in order from each,
// and none is lost.
template <class C> void messages(C& by, std::size_t most) {
    std::uint32_t const count = 50;
    for (std::uint32_t number = 0; number != count; ++number)
        for (int to = 0; to != by.size(); ++to) {
            std::vector<std::byte> bytes(sizeof number + most * (number % 3) / 2, static_cast<std::byte>(number));
            std::memcpy(bytes.data(), &number, sizeof number);
            by.send(to, std::move(bytes));
        }
    std::vector<std::uint32_t> next(static_cast<std::size_t>(by.size()));
    for (std::size_t k = 0; k != count * next.size(); ++k) {
        auto const got = by.receive(by.timeout());
        require(got.has_value(), "a message is missing");
        std::uint32_t number;
        std::memcpy(&number, got->bytes.data(), sizeof number);
        require_equal(number, next[static_cast<std::size_t>(got->from)]++, "the order of messages");
        require_equal(got->bytes.size(), sizeof number + most * (number % 3) / 2, "the length of a message");
        require(std::all_of(got->bytes.begin() + sizeof number, got->bytes.end(),
                            [&](std::byte each) { return each == static_cast<std::byte>(number); }),
                "what a message says");
    }
    require(!by.receive(std::chrono::milliseconds(0)).has_value(), "a message too many");
}

template <class C> void refusals(C& by) {
    std::vector<std::byte> some(8);
    require_contains(refusal<gradstep::value_error>([&] { by.send(by.size(), some); }),
                     "there is no rank " + std::to_string(by.size()));
    std::vector<std::span<std::byte const>> to(static_cast<std::size_t>(by.size()));
    std::vector<std::span<std::byte>> from(to.size() + 1);
    require_contains(refusal<gradstep::size_error>([&] { by.exchange(0, to, from); }), "one for each rank");
    from.pop_back();
    require_contains(refusal<gradstep::value_error>([&] { by.exchange(-1, to, from); }), "channel: -1 is out of range");
    std::vector<float> values(100), small(by.rank() == 0 ? 99 : 1);
    require_contains(refusal<gradstep::size_error>([&] {
                         gd::begin_reduce_scatter(by, 0, std::span<float const>(values), std::span(small),
                                                  gd::reduction::sum);
                     }),
                     by.rank() == 0 ? "has 99 elements; expected 100, " : "has 1 elements; expected 0, ");
}

template <class C> void all(C& by) {
    refusals(by);
    collectives(by);
    barrier(by);
    messages(by, 5000);
}

} // namespace communicator_properties
