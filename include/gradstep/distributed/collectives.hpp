#pragma once
#include <algorithm>
#include <cstring>

#include <gradstep/base/detail/uninitialized.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/number/float16.hpp>
#include <gradstep/number/pack.hpp>

// Sums and gathers over the ranks of any communicator. begin_...() starts an operation; test()
// advances it and returns true when it is complete; `finish` waits for that. All ranks must begin
// the operations of one channel in the same order.
namespace gradstep::distributed {
/// The result of `begin_reduce_scatter` and `begin_all_reduce`. Both sums are in the order of the
/// ranks, in float for 16-bit types, and rounded once. So all communicators give the same bits.
/// Integers are counts: they wrap around, and their mean is their sum.
enum class reduction {
    sum, ///< the sum over the ranks
    mean ///< the sum divided by the number of ranks
};

/// Elements [first, last) of an array.
struct shard {
    /// The first element, the element after the last one, and the number of elements, `size()`.
    std::size_t first, last;
    std::size_t size() const { return last - first; }
};
} // namespace gradstep::distributed

namespace gradstep::distributed::inline GRADSTEP_ABI {
/// The shard of an array that belongs to a rank. All ranks have the same number of blocks of 4096
/// elements, except the last ones, which can have fewer or none.
shard shard_of_rank(std::size_t elements, int ranks, int rank);

/// How an array is divided over the ranks: into the shards of shard_of_rank, or whole on one rank,
/// as a matrix that a rule multiplies.
struct partition {
    /// The rank that has the whole array; others have an empty shard.
    std::optional<int> whole_on = {};

    /// The shard of a rank.
    shard of_rank(std::size_t elements, int ranks, int rank) const {
        if (!whole_on) return shard_of_rank(elements, ranks, rank);
        return {0, rank == *whole_on ? elements : 0};
    }
};
} // namespace gradstep::distributed::inline GRADSTEP_ABI

namespace gradstep::distributed::detail::inline GRADSTEP_ISA {
// The type that elements are added up in.
template <class T> using sum_type = std::remove_cvref_t<decltype(gradstep::detail::widen(std::declval<T>()))>;

// Adds up the elements of all ranks, of[r][i], and rounds. Block by block, so that the loop over
// ranks is outside the loop over elements.
template <class T> void add_up(std::span<T const* const> of, std::span<T> out, reduction which) {
    using sum = sum_type<T>;
    using arithmetic =
        typename std::conditional_t<std::is_integral_v<sum>, std::make_unsigned<sum>, std::type_identity<sum>>::type;
    constexpr std::size_t most = 1024;
    arithmetic sums[most];
    for (std::size_t first = 0; first < out.size(); first += most) {
        std::size_t const count = std::min(most, out.size() - first);
        for (std::size_t i = 0; i != count; ++i)
            sums[i] = static_cast<arithmetic>(gradstep::detail::widen(of[0][first + i]));
        for (std::size_t r = 1; r != of.size(); ++r)
            for (std::size_t i = 0; i != count; ++i)
                sums[i] += static_cast<arithmetic>(gradstep::detail::widen(of[r][first + i]));
        if constexpr (!std::is_integral_v<sum>)
            if (which == reduction::mean)
                for (std::size_t i = 0; i != count; ++i) sums[i] /= static_cast<sum>(of.size());
        for (std::size_t i = 0; i != count; ++i) out[first + i] = T(static_cast<sum>(sums[i]));
    }
}

template <class T> std::span<std::byte> bytes_of(std::span<T> x, shard of) {
    return std::as_writable_bytes(x.subspan(of.first, of.size()));
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ISA

namespace gradstep::distributed::inline GRADSTEP_ISA {
/// A pending reduce-scatter.
template <class T, communicator C> class pending_reduce_scatter {
public:
    /// Whether the rank's own shard is complete.
    bool test() {
        if (done_) return true;
        if (!exchange_->test()) return false;
        std::vector<T const*> of;
        for (int r = 0; r != ranks_; ++r)
            of.push_back(r == rank_
                             ? values_.data() + own_.first
                             : memory_->others.get() + static_cast<std::size_t>(r - (r > rank_ ? 1 : 0)) * own_.size());
        detail::add_up<T>(of, out_, which_);
        exchange_.reset();
        memory_.reset();
        return done_ = true;
    }
    /// The ranks that it still waits for.
    std::vector<int> missing() const { return exchange_ ? exchange_->missing() : std::vector<int>(); }

    /// Called by `begin_reduce_scatter`.
    pending_reduce_scatter(C& by, int channel, std::span<T const> values, std::span<T> out, reduction which,
                           std::shared_ptr<void const> owner, partition const& parts = {})
        : values_(values), out_(out), own_(parts.of_rank(values.size(), by.size(), by.rank())), rank_(by.rank()),
          ranks_(by.size()), which_(which) {
        if (out.size() != own_.size())
            detail::fail<size_error>({"reduce_scatter"}, {"the memory of the own shard has ", out.size(), " elements"},
                                     {own_.size(), ", the elements of the shard"});
        std::size_t const elements = own_.size() * static_cast<std::size_t>(ranks_ - 1);
        memory_ = std::make_shared<memory const>(elements, std::move(owner));
        std::vector<std::span<std::byte const>> to;
        std::vector<std::span<std::byte>> from;
        std::span<T> const room(memory_->others.get(), elements);
        for (int r = 0; r != ranks_; ++r) {
            shard const theirs = r == rank_ ? shard{} : parts.of_rank(values.size(), ranks_, r);
            to.push_back(std::as_bytes(values.subspan(theirs.first, theirs.size())));
            std::size_t const at = static_cast<std::size_t>(r - (r > rank_ ? 1 : 0)) * own_.size();
            from.push_back(r == rank_ ? std::span<std::byte>() : detail::bytes_of(room, {at, at + own_.size()}));
        }
        exchange_.emplace(by.exchange(channel, to, from));
        detail::keep(*exchange_, memory_);
    }

private:
    struct memory {
        gradstep::detail::uninitialized_array<T> others; // this rank's shard, from the other ranks
        std::shared_ptr<void const> owner;

        memory(std::size_t elements, std::shared_ptr<void const> of) : others(elements), owner(std::move(of)) {}
    };
    std::shared_ptr<memory const> memory_;
    std::span<T const> values_;
    std::span<T> out_;
    shard own_;
    int rank_, ranks_;
    reduction which_;
    bool done_ = false;
    std::optional<exchange_of<C>> exchange_;
};

/// Begins a reduce-scatter: adds up an array over all ranks, and writes each rank's own shard
/// (of `parts`) to `out`. `out` can be that shard of `values`. The memory must stay valid until
/// the operation has ended. If you free `values` earlier, pass its `owner`: a transport that still
/// uses the memory keeps the owner alive. Throws size_error if `out` has another length.
template <class T, communicator C>
pending_reduce_scatter<T, C> begin_reduce_scatter(C& by, int channel, std::span<T const> values,
                                                  std::span<std::type_identity_t<T>> out, reduction which,
                                                  std::shared_ptr<void const> owner = {}, partition const& parts = {}) {
    return {by, channel, values, out, which, std::move(owner), parts};
}

/// Begins an all-gather: each rank has its own shard of an array (of `parts`), and afterwards
/// all ranks have the whole array, in place. The memory must stay valid as for
/// begin_reduce_scatter.
template <class T, communicator C>
exchange_of<C> begin_all_gather(C& by, int channel, std::span<T> values, std::shared_ptr<void const> owner = {},
                                partition const& parts = {}) {
    shard const own = parts.of_rank(values.size(), by.size(), by.rank());
    std::vector<std::span<std::byte const>> to(static_cast<std::size_t>(by.size()), detail::bytes_of(values, own));
    std::vector<std::span<std::byte>> from;
    for (int r = 0; r != by.size(); ++r)
        from.push_back(detail::bytes_of(values, parts.of_rank(values.size(), by.size(), r)));
    to[static_cast<std::size_t>(by.rank())] = from[static_cast<std::size_t>(by.rank())] = {};
    auto pending = by.exchange(channel, to, from);
    detail::keep(pending, std::move(owner));
    return pending;
}

/// A pending all-reduce: a reduce-scatter, then an all-gather of its shards.
template <class T, communicator C> class pending_all_reduce {
public:
    /// Whether all elements are complete.
    bool test() {
        if (sums_) {
            if (!sums_->test()) return false;
            gather_.emplace(begin_all_gather(*by_, channel_, values_, owner_));
            sums_.reset(); // last: if the gather throws, the next call tries again
        }
        return gather_->test();
    }
    /// The ranks that it still waits for.
    std::vector<int> missing() const { return sums_ ? sums_->missing() : gather_->missing(); }

    /// Called by `begin_all_reduce`.
    pending_all_reduce(C& by, int channel, std::span<T> values, reduction which, std::shared_ptr<void const> owner)
        : by_(&by), channel_(channel), values_(values), owner_(std::move(owner)) {
        shard const own = shard_of_rank(values.size(), by.size(), by.rank());
        sums_.emplace(by, channel, std::span<T const>(values), values.subspan(own.first, own.size()), which, owner_);
    }

private:
    C* by_;
    int channel_;
    std::span<T> values_;
    std::shared_ptr<void const> owner_;
    std::optional<pending_reduce_scatter<T, C>> sums_;
    std::optional<exchange_of<C>> gather_;
};

/// Begins an all-reduce: adds up an array over all ranks, in place. One rank adds up each element
/// and sends it to the other ranks, so all ranks get the same bits. MPI_Allreduce does not promise
/// that. The memory must stay valid as for begin_reduce_scatter.
template <class T, communicator C>
pending_all_reduce<T, C> begin_all_reduce(C& by, int channel, std::span<T> values, reduction which,
                                          std::shared_ptr<void const> owner = {}) {
    return {by, channel, values, which, std::move(owner)};
}

/// A pending gather of byte strings.
template <communicator C> class pending_gather {
public:
    /// Whether the bytes of all ranks have arrived.
    bool test() {
        if (!exchange_->test()) return false;
        if (has_lengths_) return true;
        std::vector<std::span<std::byte>> from;
        auto& all = memory_->all;
        for (std::size_t r = 0; r != all.size(); ++r) {
            all[r].resize(static_cast<std::size_t>(memory_->lengths[r]));
            from.emplace_back(all[r]);
        }
        begin(memory_->own, from);
        has_lengths_ = true;
        return exchange_->test();
    }
    /// The ranks that it still waits for.
    std::vector<int> missing() const { return exchange_->missing(); }
    /// Returns the bytes of each rank, in the order of the ranks, after test() has returned true.
    std::vector<std::vector<std::byte>> take() { return std::move(memory_->all); }

    /// Called by `begin_all_gather`.
    pending_gather(C& by, int channel, std::vector<std::byte> own)
        : by_(&by), channel_(channel),
          memory_(std::make_shared<memory>(std::move(own), static_cast<std::size_t>(by.size()))) {
        std::vector<std::span<std::byte>> from;
        for (std::uint64_t& length : memory_->lengths) from.push_back(std::as_writable_bytes(std::span(&length, 1)));
        begin(std::as_bytes(std::span(&memory_->own_length, 1)), from);
    }

private:
    struct memory { // everything that is sent and received
        std::vector<std::byte> own;
        std::uint64_t own_length;
        std::vector<std::uint64_t> lengths;
        std::vector<std::vector<std::byte>> all;

        memory(std::vector<std::byte> bytes, std::size_t ranks)
            : own(std::move(bytes)), own_length(own.size()), lengths(ranks), all(ranks) {}
    };
    void begin(std::span<std::byte const> own, std::vector<std::span<std::byte>> const& from) {
        std::vector<std::span<std::byte const>> const to(from.size(), own);
        exchange_.emplace(by_->exchange(channel_, to, from));
        detail::keep(*exchange_, memory_);
    }

    C* by_;
    int channel_;
    std::shared_ptr<memory> memory_;
    bool has_lengths_ = false;
    std::optional<exchange_of<C>> exchange_;
};

/// Begins a gather: each rank gets the byte strings of all ranks, which can have different lengths.
template <communicator C> pending_gather<C> begin_all_gather(C& by, int channel, std::vector<std::byte> own) {
    return {by, channel, std::move(own)};
}

/// Begins a barrier, which is complete when all ranks have begun it.
template <communicator C> exchange_of<C> begin_barrier(C& by, int channel) {
    std::vector<std::span<std::byte const>> const to(static_cast<std::size_t>(by.size()));
    std::vector<std::span<std::byte>> const from(to.size());
    return by.exchange(channel, to, from);
}
} // namespace gradstep::distributed::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/collectives.ipp>
#endif
