#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gradstep/core/error.hpp>
#include <gradstep/distributed/communicator.hpp>

namespace gradstep::distributed {
namespace detail {
inline namespace GRADSTEP_ABI {

// What the ranks of a process share. Bytes are copied when they are sent, so that a rank that dies
// takes none of them with it.
struct thread_hub {
    enum class life { not_begun, alive, ended };
    using piece_name = std::tuple<int, int, std::uint64_t>; // from whom, the channel, the number of the exchange on it
    struct one_rank {
        life is = life::not_begun;
        bool has_died = false;
        std::deque<message> messages;
        std::map<piece_name, std::vector<std::byte>> pieces;
        std::map<int, std::uint64_t> exchanges; // begun by this one, of each channel
        std::condition_variable arrived;
    };
    std::mutex mutex;
    std::vector<one_rank> ranks;

    explicit thread_hub(int size) : ranks(static_cast<std::size_t>(size)) {}
    one_rank& of(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
};

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
class thread_ranks;

/// One rank of `thread_ranks`: a communicator. It dies with this object; the others then have a
/// rank_error where they wait for it. Several threads may call it.
class thread_communicator {
public:
    /// An exchange that has begun.
    class exchange_type {
    public:
        /// Whether all pieces are there. Throws rank_error where a rank has died whose piece is
        /// missing, and value_error for a piece of another length.
        bool test();
        /// The ranks whose pieces are not there.
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

    /// This rank, `rank()`, of `size()`; `timeout()` and `allows_threads()` of a communicator.
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(hub_->ranks.size()); }
    std::chrono::milliseconds timeout() const { return timeout_; }
    bool allows_threads() const { return true; }

    /// Sends to a rank. What is sent to one that has ended is lost. Throws value_error for a rank
    /// that there is not.
    void send(int to, std::vector<std::byte> bytes);
    /// The next message; nothing if none comes in time.
    std::optional<message> receive(std::chrono::milliseconds wait);
    /// Begins to exchange pieces with all ranks. Throws value_error and size_error as
    /// `communicator` says, and std::bad_alloc: it has then not begun.
    exchange_type exchange(int channel, std::span<std::span<std::byte const> const> to,
                           std::span<std::span<std::byte> const> from);

private:
    friend thread_ranks;
    thread_communicator(std::shared_ptr<detail::thread_hub> hub, int rank, std::chrono::milliseconds timeout);

    std::shared_ptr<detail::thread_hub> hub_;
    int rank_;
    std::chrono::milliseconds timeout_;
};

/// The ranks of a job as threads of one process, to test what later runs on several machines:
///
///     gs::distributed::thread_ranks ranks(4);
///     ranks.run([&](gs::distributed::thread_communicator& by) { train(by); });
class thread_ranks {
public:
    /// Throws value_error for less than 1 rank, or a timeout below 0.
    explicit thread_ranks(int size, std::chrono::milliseconds timeout = default_timeout) : timeout_(timeout) {
        if (size < 1) detail::fail<value_error>({"thread_ranks: size = ", size, ": must be >= 1"});
        if (timeout.count() < 0)
            detail::fail<value_error>({"thread_ranks: timeout = ", timeout.count(), " ms: must be >= 0"});
        hub_ = std::make_shared<detail::thread_hub>(size);
    }
    /// How many ranks there are.
    int size() const { return static_cast<int>(hub_->ranks.size()); }

    /// The communicator of a rank. One that has ended may begin again, with none of the messages
    /// that were sent to it meanwhile, and send and receive; exchanges, of which it has missed
    /// some, stay a rank_error for the others. Throws value_error for a rank that there is not, or
    /// that lives.
    thread_communicator begin(int rank);

    /// Calls f(communicator) on a thread for each rank, and waits for all. A rank ends where f
    /// returns, or throws; of what is thrown the first is thrown on.
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
                    std::lock_guard const lock(of_failure); // before `own` ends: what follows from it comes later
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

} // namespace GRADSTEP_ABI
} // namespace gradstep::distributed

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/threads.ipp>
#endif
