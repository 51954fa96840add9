// Run by mpirun: what communicators.cpp, modes.cpp and server.cpp test among threads, among
// processes. Every rank throws what it finds wrong, which ends the job.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <distributed/communicator_properties.hpp>
#include <distributed/mode_properties.hpp>
#include <distributed/server_properties.hpp>
#include <gradstep/distributed/mpi.hpp>
#include <support/allocations.hpp>

namespace gd = gradstep::distributed;
using namespace on_ranks;
using namespace std::chrono_literals;

namespace {

// The last rank says nothing for as long as the others wait.
void silent_rank() {
    gd::mpi_communicator steady;
    gd::mpi_communicator by({.timeout = 200ms});
    int const last = by.size() - 1;
    if (by.rank() != last) {
        std::vector<float> values(1 << 20); // more than MPI sends without the other side
        auto sums = gd::begin_all_reduce(by, 9, std::span(values), gd::reduction::sum);
        auto const begin = std::chrono::steady_clock::now();
        auto const expected = "the gradient of w: rank " + std::to_string(last) + " has not taken part within 200 ms";
        std::string sentence; // the first waits can also miss ranks that are slow
        for (gd::detail::deadline const until(300s); sentence.find(expected) == sentence.npos && !until.has_passed();)
            sentence = refusal<gd::rank_error>([&] { gd::finish(by, sums, "the gradient of w"); });
        require_contains(sentence, expected);
        require(std::chrono::steady_clock::now() - begin < 600s, "the timeout");
    }
    auto barrier = gd::begin_barrier(steady, 0);
    gd::finish(steady, barrier, "the barrier");
}

// What a rank has given up, another one still reads: its memory stays for as long.
void memory_of_what_is_given_up() {
    gd::mpi_communicator steady;
    gd::mpi_communicator by({.timeout = 200ms});
    std::size_t const last = static_cast<std::size_t>(by.size()) - 1;
    std::vector<std::span<std::byte const>> to(last + 1);
    std::vector<std::span<std::byte>> from(last + 1);
    std::weak_ptr<std::vector<float>> given_up;
    std::vector<float> received(1 << 20); // more than MPI sends without the other side
    if (by.rank() == 0) {
        auto const sent = std::make_shared<std::vector<float>>(received.size(), 3.0f);
        given_up = sent;
        to[last] = std::as_bytes(std::span(*sent));
        auto pending = by.exchange(3, to, from);
        pending.keep(sent);
        refusal<gd::rank_error>([&] { gd::finish(by, pending, "pieces"); });
    }
    require((by.rank() == 0) != given_up.expired(), "the memory that MPI reads");
    auto barrier = gd::begin_barrier(steady, 0);
    gd::finish(steady, barrier, "the barrier");
    if (by.rank() == 0) {
        for (gd::detail::deadline const until(300s); !given_up.expired(); by.receive(1ms))
            require(!until.has_passed(), "the memory is let go of");
    } else {
        if (static_cast<std::size_t>(by.rank()) == last) from[0] = std::as_writable_bytes(std::span(received));
        gd::mpi_communicator::exchange_type pending = by.exchange(3, to, from);
        for (gd::detail::deadline const until(300s); !pending.test();) require(!until.has_passed(), "the pieces");
        if (static_cast<std::size_t>(by.rank()) == last)
            require(std::ranges::count(received, 3.0f) == std::ssize(received), "what was given up");
    }
    auto end = gd::begin_barrier(steady, 0);
    gd::finish(steady, end, "the barrier");
}

// A message of which a part is here cannot be taken back: its memory stays until the rest has come.
// Where one process reads the memory of another there are no parts: CMakeLists.txt forbids that to
// one of the runs.
void memory_of_half_a_message() {
    gd::mpi_communicator steady;
    gd::mpi_communicator by({.timeout = 200ms});
    std::size_t const last = static_cast<std::size_t>(by.size()) - 1, length = 1 << 24;
    std::vector<std::span<std::byte const>> to(last + 1);
    std::vector<std::span<std::byte>> from(last + 1);
    std::weak_ptr<std::vector<std::byte>> given_up;
    std::vector<std::byte> const sent(length, std::byte{3});
    bool in_parts = false;
    if (static_cast<std::size_t>(by.rank()) == last) {
        to[0] = sent;
        gd::mpi_communicator::exchange_type pending = by.exchange(3, to, from);
        std::this_thread::sleep_for(1s); // MPI moves nothing on this rank meanwhile
        for (gd::detail::deadline const until(300s); !pending.test();) require(!until.has_passed(), "the pieces");
    } else if (by.rank() == 0) {
        auto const received = std::make_shared<std::vector<std::byte>>(length);
        given_up = received;
        from[last] = *received;
        auto pending = by.exchange(3, to, from);
        pending.keep(received);
        in_parts = gradstep::detail::exception_of([&] { gd::finish(by, pending, "pieces"); }) != nullptr;
    } else {
        gd::mpi_communicator::exchange_type pending = by.exchange(3, to, from);
        for (gd::detail::deadline const until(300s); !pending.test();) require(!until.has_passed(), "the pieces");
    }
    if (in_parts) {
        require(!given_up.expired(), "the memory that MPI writes to");
        for (gd::detail::deadline const until(300s); !given_up.expired(); by.receive(1ms))
            require(!until.has_passed(), "the memory is let go of");
    }
    auto end = gd::begin_barrier(steady, 0);
    gd::finish(steady, end, "the barrier");
}

// Memory that is given back is there for a message of about that length, and for no other one.
void memory_of_messages() {
    gd::mpi_communicator by;
    auto const received = [&](std::size_t bytes) {
        by.send(by.rank(), std::vector<std::byte>(bytes, std::byte(bytes)));
        std::optional<gd::message> out;
        for (gd::detail::deadline const until(300s); !out; out = by.receive(10ms))
            require(!until.has_passed(), "a message to oneself");
        require_equal(out->bytes.size(), bytes, "the length");
        require(std::ranges::count(out->bytes, std::byte(bytes)) == std::ssize(out->bytes), "the bytes");
        return std::move(out->bytes);
    };
    auto first = received(200'000);
    auto const* const at = first.data();
    by.reuse(std::move(first));
    auto const other = received(90'000);
    require(other.data() != at, "a message of half that length has memory of its own");
    auto second = received(199'999);
    require(second.data() == at, "the memory is used again");
    by.reuse(std::move(second));
    require(received(200'001).data() != at, "a longer message has memory of its own");
}

// A message for which there is no memory is not lost.
void message_without_memory() {
#if defined(COUNTS_ALLOCATIONS)
    gd::mpi_communicator by;
    for (std::size_t const bytes : {std::size_t(100), std::size_t(200'000)}) {
        by.send(by.rank(), std::vector<std::byte>(bytes, std::byte{1}));
        by.send(by.rank(), std::vector<std::byte>(bytes, std::byte{2}));
        bool has_failed = false;
        for (gd::detail::deadline const until(300s); !has_failed;) {
            allocations_until_failure = 0; // of the message itself, once it is there
            try {
                by.receive(0ms);
            } catch (std::bad_alloc const&) {
                has_failed = true;
            }
            allocations_until_failure = SIZE_MAX;
            require(!until.has_passed(), "a message to oneself");
        }
        for (std::byte const number : {std::byte{1}, std::byte{2}}) {
            auto const found = by.receive(300s);
            require(found.has_value() && found->bytes == std::vector<std::byte>(bytes, number), "the messages");
        }
    }
#endif
}

void other_lengths(gd::mpi_communicator& by) {
    std::vector<std::byte> bytes(by.rank() == 0 ? 100 : 200), other(100);
    std::vector<std::span<std::byte const>> to(static_cast<std::size_t>(by.size()));
    std::vector<std::span<std::byte>> from(to.size());
    if (by.rank() < 2) {
        to[static_cast<std::size_t>(1 - by.rank())] = bytes;
        from[static_cast<std::size_t>(1 - by.rank())] = std::span(other).first(by.rank() == 0 ? 100 : 50);
    }
    auto pending = by.exchange(4, to, from);
    if (by.rank() < 2)
        require_contains(refusal<gradstep::value_error>([&] { gd::finish(by, pending, "pieces"); }),
                         by.rank() == 0 ? "rank 1 has sent more than 100 bytes; expected 100 bytes"
                                        : "rank 0 has sent more than 50 bytes; expected 50 bytes");
    else gd::finish(by, pending, "pieces");
}

void test() {
    gd::mpi_communicator by;
    require(by.size() > 1, "this is for several processes: mpirun -n 2");
    if (by.rank() == 0) std::printf("waiting for ranks that are silent, up to 20 s each\n"), std::fflush(stdout);
    communicator_properties::all(by);
    gd::mpi_communicator of_the_callers(MPI_COMM_WORLD, {.most_bytes = 1000}); // as if MPI's int had 10 bits
    communicator_properties::all(of_the_callers);
    communicator_properties::messages(by, 300'000);
    mode_properties::all(by);
    // One server of two or three ranks, two of four.
    server_properties::steps_as_one_process(by, by.size() / 2, server_properties::many_elements);
    server_properties::loses_no_delta(by, by.size() / 2);
    require_contains(refusal<gradstep::value_error>([] { gd::mpi_communicator({.most_bytes = 0}); }),
                     "most_bytes: 0 is out of range; expected >= 1");
    require_contains(refusal<gd::mpi_error>([] { gd::mpi_session(); }), "initialised already");
    silent_rank();
    memory_of_what_is_given_up();
    memory_of_half_a_message();
    memory_of_messages();
    message_without_memory();
    other_lengths(of_the_callers);
    if (by.rank() == 0) std::printf("%d ranks: good\n", by.size());
}

} // namespace

int main() {
    gd::mpi_session mpi;
    mpi.run(test);
}
