#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include <gradstep/base/error.hpp>
#include <gradstep/distributed/communicator.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// The state that the ranks of a process share. Sent bytes are copied, so they stay if the sender
// ends.
struct thread_hub {
    enum class life { not_started, alive, ended };
    using exchange_key = std::tuple<int, int, std::uint64_t>; // sender, channel, number of the exchange on it
    struct one_rank {
        life is = life::not_started;
        bool has_died = false;
        std::deque<message> messages;
        std::map<exchange_key, std::vector<std::byte>> exchange_messages;
        std::map<int, std::uint64_t> exchanges; // the number of exchanges that this rank has begun, by channel
        std::condition_variable arrived;
    };
    std::mutex mutex;
    std::vector<one_rank> ranks;

    explicit thread_hub(int size) : ranks(static_cast<std::size_t>(size)) {}
    one_rank& of(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

namespace gradstep::distributed::inline GRADSTEP_ABI {
class thread_ranks;

/// One rank of `thread_ranks`: a communicator. Its destructor ends the rank; other ranks that wait
/// for it then throw rank_error. Thread-safe.
class thread_communicator {
public:
    /// A pending exchange.
    class exchange_type {
    public:
        /// Whether all blocks have arrived. Throws rank_error if a block is missing and its rank
        /// has ended, and value_error for a block of another length.
        bool test();
        /// The ranks whose blocks have not arrived.
        std::vector<int> missing() const { return missing_; }

    private:
        friend thread_communicator;
        std::shared_ptr<detail::thread_hub> hub_;
        int rank_, channel_;
        std::uint64_t number_;
        std::vector<std::span<std::byte>> from_;
        std::vector<int> missing_;
    };

    thread_communicator(thread_communicator&&) = default;
    thread_communicator& operator=(thread_communicator&&) = delete;
    ~thread_communicator();

    /// `rank()`, `size()`, `timeout()` and `allows_threads()` of a `communicator`.
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(hub_->ranks.size()); }
    std::chrono::milliseconds timeout() const { return timeout_; }
    bool allows_threads() const { return true; }

    /// Sends a message to a rank. Messages to a rank that has ended are lost. Throws value_error
    /// for an invalid rank.
    void send(int to, std::vector<std::byte> bytes);
    /// Returns the next message, or nothing if none comes in time.
    std::optional<message> receive(std::chrono::milliseconds wait);
    /// Begins an exchange with all ranks (`communicator`). Throws value_error, size_error and
    /// std::bad_alloc before it has begun.
    exchange_type exchange(int channel, std::span<std::span<std::byte const> const> to,
                           std::span<std::span<std::byte> const> from);

private:
    friend thread_ranks;
    thread_communicator(std::shared_ptr<detail::thread_hub> hub, int rank, std::chrono::milliseconds timeout);

    std::shared_ptr<detail::thread_hub> hub_;
    int rank_;
    std::chrono::milliseconds timeout_;
};

/// Runs the ranks of a job as threads of one process, to test programs for several machines:
///
///     gs::distributed::thread_ranks ranks(4);
///     ranks.run([&](gs::distributed::thread_communicator& by) { train(by); });
class thread_ranks {
public:
    /// Makes `size` ranks. Throws value_error for fewer than 1 rank, or a negative timeout.
    explicit thread_ranks(int size, std::chrono::milliseconds timeout = default_timeout) : timeout_(timeout) {
        if (size < 1) detail::fail<value_error>({"thread_ranks: size"}, {size, " is out of range"}, {">= 1"});
        if (timeout.count() < 0)
            detail::fail<value_error>({"thread_ranks: timeout"}, {timeout.count(), " ms is out of range"}, {">= 0"});
        hub_ = std::make_shared<detail::thread_hub>(size);
    }
    /// The number of ranks.
    int size() const { return static_cast<int>(hub_->ranks.size()); }

    /// Returns the communicator of a rank. A rank that has ended can begin again. It can then send
    /// and receive, without the messages that were sent to it in between. Exchanges with it still
    /// throw rank_error, since it has missed some of them. Throws value_error for an invalid rank,
    /// and for a rank that has not ended.
    thread_communicator begin(int rank);

    /// Calls f(communicator) on one thread for each rank, and waits for all. A rank ends when f
    /// returns or throws. Rethrows the first exception.
    template <class F> void run(F const& f) {
        std::vector<thread_communicator> all;
        for (int r = 0; r != size(); ++r) all.push_back(begin(r));
        std::mutex of_failure;
        std::exception_ptr failure;
        std::vector<std::thread> threads;
        for (auto& communicator : all)
            threads.emplace_back([&] {
                thread_communicator own = std::move(communicator);
                if (auto const thrown = gradstep::detail::exception_of([&] { f(own); })) {
                    std::lock_guard const lock(of_failure); // before `own` ends the rank, which makes others throw
                    if (!failure) failure = thrown;
                }
            });
        for (auto& thread : threads) thread.join();
        if (failure) std::rethrow_exception(failure);
    }

private:
    std::chrono::milliseconds timeout_;
    std::shared_ptr<detail::thread_hub> hub_;
};

static_assert(communicator<thread_communicator>);
} // namespace gradstep::distributed::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/threads.ipp>
#endif
