#pragma once
#include <algorithm>
#include <climits>
#include <cstring>
#include <iterator>
#include <list>
#include <mutex>

#include <gradstep/base/error.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/mpi_session.hpp>

namespace gradstep::distributed {
/// The options of a communicator over MPI.
struct mpi_options {
    /// How long to wait for another rank before rank_error. >= 0.
    std::chrono::milliseconds timeout = default_timeout;
    /// The largest message that is sent as bytes, because the counts of MPI are int. A longer
    /// message is sent as one element of an MPI type that has its length. >= 1.
    int most_bytes = INT_MAX;
};
} // namespace gradstep::distributed

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
// A number of bytes as a count and a type of MPI.
class mpi_bytes {
public:
    mpi_bytes(std::size_t bytes, int most) {
        std::size_t const chunk = static_cast<std::size_t>(most);
        if (bytes <= chunk) {
            count_ = static_cast<int>(bytes);
            return;
        }
        MPI_Datatype one, whole;
        std::size_t const chunks = bytes / chunk, rest = bytes % chunk;
        if (chunks > INT_MAX)
            fail<value_error>({"MPI"}, {"a message has ", bytes, " bytes"},
                              {"less than ", (std::uint64_t{INT_MAX} + 1) * chunk});
        check_mpi(MPI_Type_contiguous(most, MPI_BYTE, &one), "MPI_Type_contiguous");
        check_mpi(MPI_Type_contiguous(static_cast<int>(chunks), one, &whole), "MPI_Type_contiguous");
        int const lengths[] = {1, static_cast<int>(rest)};
        MPI_Aint const offsets[] = {0, static_cast<MPI_Aint>(chunks * chunk)};
        MPI_Datatype const types[] = {whole, MPI_BYTE};
        check_mpi(MPI_Type_create_struct(2, lengths, offsets, types, &type_), "MPI_Type_create_struct");
        check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
        MPI_Type_free(&one);
        MPI_Type_free(&whole);
        is_own_ = true;
    }
    ~mpi_bytes() {
        if (is_own_) MPI_Type_free(&type_); // MPI frees it after the last transfer
    }
    mpi_bytes(mpi_bytes const&) = delete;
    mpi_bytes& operator=(mpi_bytes const&) = delete;

    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_ = MPI_BYTE;
    int count_ = 1;
    bool is_own_ = false;
};

// Memory that MPI can still read or write after its communicator is destroyed. MPI does not say
// when it has finished, so the memory stays until after main, when MPI has ended.
struct memory_of_mpi {
    std::mutex mutex;
    std::list<std::shared_ptr<void const>> all;
};
inline memory_of_mpi& left_to_mpi() {
    static memory_of_mpi out;
    return out;
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// A communicator over the ranks of an MPI communicator. It duplicates the MPI communicator, so its
/// messages do not mix with your messages. MPI must be initialised, and must outlive this object.
/// Several threads can call it if MPI provides MPI_THREAD_MULTIPLE, which `mpi_session` requests.
/// MPI moves bytes only during calls: test() and receive() advance all pending operations.
///
/// If a process ends without MPI_Finalize, the result depends on MPI: mpirun of Open MPI ends the
/// whole job. If a process is alive and silent, the other ranks throw rank_error after the timeout.
class mpi_communicator {
    // A pending send or receive.
    struct transfer {
        MPI_Request request;
        int rank;
        bool is_receive;
        std::size_t bytes;
    };

public:
    /// A pending exchange. Destroy it before its communicator.
    class exchange_type {
    public:
        exchange_type(exchange_type&& other) noexcept
            : by_(std::exchange(other.by_, nullptr)), pending_(std::move(other.pending_)),
              memory_(std::move(other.memory_)) {}
        exchange_type& operator=(exchange_type&&) = delete;
        // A pending exchange cannot be cancelled on the other ranks. If it is destroyed, the
        // communicator is unusable.
        ~exchange_type() {
            if (by_ != nullptr && !pending_.empty()) by_->give_up(pending_, std::move(memory_));
        }

        /// Whether all blocks have been sent and received. Throws value_error for a block of
        /// another length, and mpi_error.
        bool test() { return pending_.empty() || by_->advance(pending_); }
        /// The ranks whose blocks have not arrived. If all have, the ranks that have not received
        /// this rank's block.
        std::vector<int> missing() const {
            std::vector<int> receiving, sending;
            for (auto const& one : pending_) (one.is_receive ? receiving : sending).push_back(one.rank);
            return receiving.empty() ? sending : receiving;
        }
        /// Keeps memory alive as long as MPI can read or write it. If other ranks do not take part,
        /// this is longer than the exchange exists. Other memory of blocks must then stay until the
        /// end of the program.
        void keep(std::shared_ptr<void const> memory) { memory_ = std::move(memory); }

    private:
        friend mpi_communicator;
        explicit exchange_type(mpi_communicator& by) : by_(&by) {}
        mpi_communicator* by_;
        std::vector<transfer> pending_;
        std::shared_ptr<void const> memory_;
    };

    /// All ranks of `of` must call it. Throws sequence_error if MPI is not running, value_error if
    /// an option is out of range, and mpi_error.
    explicit mpi_communicator(MPI_Comm of, mpi_options options = {}) : options_(options) {
        int initialized = 0, ended = 0, level = 0;
        MPI_Initialized(&initialized);
        if (initialized != 0) MPI_Finalized(&ended);
        if (initialized == 0 || ended != 0)
            detail::fail<sequence_error>({"mpi_communicator"}, {"MPI is not running"}, {"an mpi_session first"});
        if (options.timeout.count() < 0)
            detail::fail<value_error>({"mpi_options.timeout"}, {options.timeout.count(), " ms is out of range"},
                                      {">= 0"});
        if (options.most_bytes < 1)
            detail::fail<value_error>({"mpi_options.most_bytes"}, {options.most_bytes, " is out of range"}, {">= 1"});
        detail::check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
        allows_threads_ = level >= MPI_THREAD_MULTIPLE;
        for (MPI_Comm* const own : {&messages_, &exchanges_}) {
            detail::check_mpi(MPI_Comm_dup(of, own), "MPI_Comm_dup");
            detail::check_mpi(MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
        }
        int* last_tag = nullptr;
        int is_known = 0;
        detail::check_mpi(MPI_Comm_get_attr(exchanges_, MPI_TAG_UB, &last_tag, &is_known), "MPI_Comm_get_attr");
        if (is_known != 0) last_tag_ = *last_tag;
        detail::check_mpi(MPI_Comm_rank(messages_, &rank_), "MPI_Comm_rank");
        detail::check_mpi(MPI_Comm_size(messages_, &size_), "MPI_Comm_size");
    }
    /// The same for all ranks of the job, MPI_COMM_WORLD.
    explicit mpi_communicator(mpi_options options = {}) : mpi_communicator(MPI_COMM_WORLD, options) {}
    /// Waits until all messages are sent, up to the timeout.
    ~mpi_communicator() {
        detail::deadline const until(options_.timeout);
        for (detail::idle_time idle; is_whole_ && !under_way_.empty() && !until.has_passed(); idle.pass())
            advance_all();
        if (!is_whole_ || !under_way_.empty() || unread_) {
            auto& left = detail::left_to_mpi();
            std::lock_guard const lock(left.mutex);
            for (auto& one : under_way_) left.all.push_back(std::move(one.memory));
            return;
        }
        MPI_Comm_free(&messages_);
        MPI_Comm_free(&exchanges_);
    }
    mpi_communicator(mpi_communicator const&) = delete;
    mpi_communicator& operator=(mpi_communicator const&) = delete;

    /// `rank()`, `size()`, `timeout()` and `allows_threads()` of a `communicator`.
    int rank() const { return rank_; }
    int size() const { return size_; }
    std::chrono::milliseconds timeout() const { return options_.timeout; }
    bool allows_threads() const { return allows_threads_; }

    /// Sends a message to a rank by MPI_Isend, and keeps the memory until MPI has sent it. Throws
    /// value_error for an invalid rank, and mpi_error.
    void send(int to, std::vector<std::byte> bytes) {
        detail::check_rank("send", to, size_);
        std::lock_guard const lock(mutex_);
        advance_all();
        auto const kept = std::make_shared<std::vector<std::byte> const>(std::move(bytes));
        under_way_.push_back({MPI_REQUEST_NULL, kept, false});
        detail::mpi_bytes const all(kept->size(), options_.most_bytes);
        detail::check_mpi(
            MPI_Isend(kept->data(), all.count(), all.type(), to, 0, messages_, &under_way_.back().request),
            "MPI_Isend");
    }
    /// Returns the next message, or nothing if none comes in time. Throws mpi_error, and
    /// std::bad_alloc; the next call then returns the same message.
    std::optional<message> receive(std::chrono::milliseconds wait) {
        detail::deadline const until(wait);
        for (detail::idle_time idle;; idle.pass()) {
            if (auto found = receive_now()) return found;
            if (until.has_passed()) return {};
        }
    }
    /// Keeps the memory of a finished message for later messages of similar length. It keeps the
    /// memory of the last two long messages.
    void reuse(std::vector<std::byte> bytes) {
        if (bytes.size() < least_reused) return;
        std::lock_guard const lock(mutex_);
        if (spare_.size() == most_spare) spare_.pop_front();
        spare_.push_back(std::move(bytes));
    }
    /// Begins an exchange with all ranks (`communicator`): one MPI_Irecv and one MPI_Isend for each
    /// other rank, with the channel as the tag. Throws value_error, size_error and mpi_error.
    exchange_type exchange(int channel, std::span<std::span<std::byte const> const> to,
                           std::span<std::span<std::byte> const> from) {
        detail::check_message_counts(channel, to.size(), from.size(), size_);
        if (channel > last_tag_)
            detail::fail<value_error>({"exchange: channel"}, {channel, " is out of range"},
                                      {"at most ", last_tag_, ", the last tag of this MPI"});
        auto const own = static_cast<std::size_t>(rank_);
        if (to[own].size() != from[own].size())
            detail::refuse_message_size(rank_, rank_, to[own].size(), from[own].size());
        if (!to[own].empty()) std::memmove(from[own].data(), to[own].data(), to[own].size());
        exchange_type out(*this);
        out.pending_.reserve(2 * to.size());
        std::lock_guard const lock(mutex_);
        for (bool const is_receive : {true, false})
            for (int step = 1; step != size_; ++step) { // spreads the load: not all ranks begin with rank 0
                int const r = is_receive ? (rank_ + size_ - step) % size_ : (rank_ + step) % size_;
                auto const at = static_cast<std::size_t>(r);
                std::size_t const bytes = is_receive ? from[at].size() : to[at].size();
                detail::mpi_bytes const all(bytes, options_.most_bytes);
                MPI_Request request = MPI_REQUEST_NULL;
                if (is_receive)
                    detail::check_mpi(
                        MPI_Irecv(from[at].data(), all.count(), all.type(), r, channel, exchanges_, &request),
                        "MPI_Irecv");
                else
                    detail::check_mpi(
                        MPI_Isend(to[at].data(), all.count(), all.type(), r, channel, exchanges_, &request),
                        "MPI_Isend");
                out.pending_.push_back({request, r, is_receive, bytes});
            }
        return out;
    }

private:
    // A pending transfer and its memory. Errors are ignored if its exchange was given up.
    struct kept_memory {
        MPI_Request request;
        std::shared_ptr<void const> memory;
        bool is_given_up;
    };
    // A message that MPI_Improbe has matched.
    struct matched_message {
        MPI_Message handle;
        MPI_Status status;
    };

    // The length in bytes, for any type of the message.
    std::size_t length_of(MPI_Status const& status) const {
        MPI_Count bytes = 0;
        detail::check_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
        return static_cast<std::size_t>(bytes);
    }
    void advance_all() {
        for (auto at = under_way_.begin(); at != under_way_.end();) {
            int done = 0;
            int const result = MPI_Test(&at->request, &done, MPI_STATUS_IGNORE);
            if (!at->is_given_up) detail::check_mpi(result, "MPI_Test");
            at = done != 0 || result != MPI_SUCCESS ? under_way_.erase(at) : std::next(at);
        }
    }
    std::optional<message> receive_now() {
        std::lock_guard const lock(mutex_);
        advance_all();
        if (!unread_) {
            int found = 0;
            matched_message next;
            detail::check_mpi(MPI_Improbe(MPI_ANY_SOURCE, 0, messages_, &found, &next.handle, &next.status),
                              "MPI_Improbe");
            if (found == 0) return {};
            unread_ = next;
        }
        message out{unread_->status.MPI_SOURCE, memory_of(length_of(unread_->status))};
        detail::mpi_bytes const all(out.bytes.size(), options_.most_bytes);
        matched_message next = *std::exchange(unread_, std::nullopt);
        detail::check_mpi(MPI_Mrecv(out.bytes.data(), all.count(), all.type(), &next.handle, &next.status),
                          "MPI_Mrecv");
        return out;
    }
    // Memory of `length` bytes with any contents.
    std::vector<std::byte> memory_of(std::size_t length) {
        for (auto at = spare_.begin(); at != spare_.end(); ++at) {
            if (at->size() < length || at->size() / 2 > length) continue;
            std::vector<std::byte> out = std::move(*at);
            spare_.erase(at);
            out.resize(length); // shrinks: growing would write zeros
            return out;
        }
        return std::vector<std::byte>(length);
    }
    // Returns whether all transfers are complete.
    bool advance(std::vector<transfer>& pending) {
        std::lock_guard const lock(mutex_);
        for (transfer& one : pending) { // MPI sets complete requests to null
            if (one.request == MPI_REQUEST_NULL) continue;
            int done = 0;
            MPI_Status status;
            int const result = MPI_Test(&one.request, &done, &status);
            int kind = MPI_SUCCESS;
            if (result != MPI_SUCCESS) MPI_Error_class(result, &kind);
            if (kind == MPI_ERR_TRUNCATE)
                detail::fail<value_error>({"rank ", rank_, ": exchange"},
                                          {"rank ", one.rank, " has sent more than ", one.bytes, " bytes"},
                                          {one.bytes, " bytes, the same from all ranks"});
            detail::check_mpi(result, "MPI_Test");
            if (done == 0 || !one.is_receive) continue;
            if (std::size_t const sent = length_of(status); sent != one.bytes)
                detail::refuse_message_size(rank_, one.rank, sent, one.bytes);
        }
        std::erase_if(pending, [](transfer const& one) { return one.request == MPI_REQUEST_NULL; });
        return pending.empty();
    }
    // Cancels receives and waits for that, in case their memory is not kept. Open MPI cannot cancel
    // a receive that has partly arrived while its sender does nothing, and can cancel no send:
    // these continue as long as this object exists, with the memory that is kept.
    void give_up(std::vector<transfer>& pending, std::shared_ptr<void const> memory) {
        std::lock_guard const lock(mutex_);
        is_whole_ = false;
        for (auto& one : pending)
            if (one.request != MPI_REQUEST_NULL && one.is_receive) MPI_Cancel(&one.request);
        detail::deadline const until(options_.timeout);
        for (auto& one : pending) {
            int done = 0;
            for (detail::idle_time idle; one.is_receive && one.request != MPI_REQUEST_NULL && !until.has_passed();
                 idle.pass())
                if (MPI_Test(&one.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
            if (one.request != MPI_REQUEST_NULL) under_way_.push_back({one.request, memory, true});
        }
    }

    mpi_options options_;
    MPI_Comm messages_ = MPI_COMM_NULL, exchanges_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, last_tag_ = 32767; // the minimum that MPI guarantees
    bool allows_threads_ = false, is_whole_ = true;
    std::mutex mutex_; // one thread at a time calls MPI
    std::list<kept_memory> under_way_;
    std::optional<matched_message> unread_; // matched, but there was no memory to receive it
    // The heap serves smaller blocks fast enough.
    static constexpr std::size_t least_reused = 1 << 16, most_spare = 2;
    std::list<std::vector<std::byte>> spare_;
};

static_assert(communicator<mpi_communicator>);
} // namespace gradstep::distributed::inline GRADSTEP_ABI
