#pragma once
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/compression/top_k.hpp>
#include <gradstep/kernel/kernel.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// f(i, value) for each entry of part p of `parts` of a message; `fetch(i)` comes a while before.
template <class Index, class S, class T, class Fetch, class F>
void each_entry(sparse_message const& message, std::size_t p, std::size_t parts, Fetch const& fetch, F const& f) {
    constexpr std::size_t ahead = 16;
    auto const indices = message.indices<Index>();
    auto const values = message.values<S>();
    std::size_t const end = (p + 1) * indices.size() / parts;
    for (std::size_t e = p * indices.size() / parts; e != end; ++e) {
        if (e + ahead < end) fetch(static_cast<std::size_t>(indices[e + ahead]));
        f(static_cast<std::size_t>(indices[e]), T(widen(values[e])));
    }
}
template <class S, class T, class Fetch, class F>
void each_of_one(sparse_message const& message, std::size_t p, std::size_t parts, Fetch const& fetch, F const& f) {
    if (message.size() > 0x7fff'ffff) each_entry<std::int64_t, S, T>(message, p, parts, fetch, f);
    else each_entry<std::int32_t, S, T>(message, p, parts, fetch, f);
}

// Adds the entries of several messages of one tensor, for each index in the order of the messages.
// Each element belongs to one block, whose sums stay in the cache. Elements without entries are not
// read.
template <class S, class T> class merged_messages {
    static constexpr std::size_t largest_block = 65536;

public:
    // Takes the memory for as many parts.
    merged_messages(message_list const& messages, std::size_t size, std::size_t parts)
        : messages_(messages), size_(size), parts_(parts), block_(std::min(largest_block, std::bit_ceil(size + 1))) {
        if (messages.size() == 1) return; // its entries are what there is to do
        next_ = uninitialized_array<std::size_t>(parts * messages.size());
        sums_ = uninitialized_array<T>(parts * block_);
        order_ = uninitialized_array<std::uint32_t>(parts * block_);
        seen_ = uninitialized_array<bool>(parts * block_);
        std::fill_n(seen_.get(), parts * block_, false);
    }
    // f(i, sum) for each index of part p, once each. `fetch(i)` comes a while before f(i, ...).
    template <class Fetch, class F> void each(std::size_t p, Fetch const& fetch, F const& f) const {
        if (messages_.size() == 1) each_of_one<S, T>(*messages_[0], p, parts_, fetch, f);
        else if (size_ > 0x7fff'ffff) each_by<std::int64_t>(p, fetch, f);
        else each_by<std::int32_t>(p, fetch, f);
    }

private:
    // Where part p begins, so that the parts have as many entries of the first message.
    std::size_t first_of(std::size_t p) const {
        std::size_t const count = messages_[0]->count();
        if (p == 0 || p == parts_) return p == 0 ? 0 : size_;
        return count == 0 ? size_ : messages_[0]->index(p * count / parts_);
    }
    template <class Index> static std::size_t entry_at(std::span<Index const> indices, std::size_t i) {
        return static_cast<std::size_t>(std::lower_bound(indices.begin(), indices.end(), static_cast<std::int64_t>(i)) -
                                        indices.begin());
    }
    template <class Index, class Fetch, class F> void each_by(std::size_t p, Fetch const& fetch, F const& f) const {
        std::size_t const first = first_of(p), last = first_of(p + 1), trainers = messages_.size();
        std::size_t* const next = next_.get() + p * trainers;
        T* const sums = sums_.get() + p * block_;
        std::uint32_t* const order = order_.get() + p * block_;
        bool* const seen = seen_.get() + p * block_;
        for (std::size_t r = 0; r != trainers; ++r)
            next[r] = entry_at<Index>(messages_[r]->template indices<Index>(), first);

        for (std::size_t begin = first; begin < last; begin += block_) {
            std::size_t const end = std::min(last, begin + block_);
            std::size_t count = 0;
            for (std::size_t r = 0; r != trainers; ++r) {
                auto const indices = messages_[r]->template indices<Index>();
                auto const values = messages_[r]->template values<S>();
                std::size_t e = next[r];
                for (; e != indices.size() && static_cast<std::size_t>(indices[e]) < end; ++e) {
                    std::size_t const at = static_cast<std::size_t>(indices[e]) - begin;
                    T const value = T(widen(values[e]));
                    if (seen[at]) {
                        sums[at] = sums[at] + value;
                    } else {
                        seen[at] = true;
                        sums[at] = value;
                        order[count++] = static_cast<std::uint32_t>(at);
                        fetch(begin + at);
                    }
                }
                next[r] = e;
            }
            for (std::size_t j = 0; j != count; ++j) {
                std::size_t const at = order[j];
                seen[at] = false;
                f(begin + at, sums[at]);
            }
        }
    }

    message_list const& messages_;
    std::size_t size_, parts_, block_;
    uninitialized_array<std::size_t> next_;    // of each message, in each part
    uninitialized_array<T> sums_;              // of a block, where
    uninitialized_array<bool> seen_;           // this says so: nowhere between blocks
    uninitialized_array<std::uint32_t> order_; // the elements of a block in the order in which they were seen
};

// Plain SGD at single entries: what a compressed step does to the parameter.
template <class Element> struct sparse_sgd {
    using traits = element_traits<Element>;
    using compute = typename traits::compute;
    using storage = typename traits::storage;

    storage* weight;
    typename traits::state* master; // null unless the element keeps one
    compute trainers, move;
    GRADSTEP_NO_UNIQUE_ADDRESS rounding_of<Element> rounding;

    GRADSTEP_INLINE void fetch([[maybe_unused]] std::size_t i) const {
#if defined(__GNUC__)
        __builtin_prefetch(weight + i, 1);
        if constexpr (traits::has_master) __builtin_prefetch(master + i, 1);
#endif
    }
    GRADSTEP_HD void operator()(std::size_t i, compute sum) const {
        compute w = load_trained<traits, compute>(weight, master, i, all_lanes{});
        w = math::fma(move, math::div(sum, trainers), w);
        if constexpr (traits::is_stochastic) w = stochastically_rounded<storage>(w, rounding, i);
        weight[i] = storage(w);
        if constexpr (traits::has_master) master[i] = w;
    }
};

// The mean of what dense messages hold, computed while it is read.
template <class S, class T> struct mean_gradient {
    static constexpr bool skips_rare_slots = true;
    S const* const* of;
    std::size_t count;
    T trainers;

    template <std::size_t N> bool is_aligned() const { return false; }
    template <pack V, class Which> GRADSTEP_HD V load(std::size_t i, Which which) const {
        using io = pack_traits<V>;
        V sum = io::load(of[0] + i, which);
        for (std::size_t r = 1; r != count; ++r) sum = sum + io::load(of[r] + i, which);
        return math::div(sum, V(trainers));
    }
    template <pack V, class Which> GRADSTEP_HD V peek(std::size_t i, Which which) const { return load<V>(i, which); }
};
// Where the values of dense messages are.
template <class S> std::vector<S const*> dense_values_of(message_list const& messages) {
    std::vector<S const*> out;
    out.reserve(messages.size());
    for (sparse_message const* m : messages) out.push_back(m->values<S>().data());
    return out;
}

// Writes their mean to memory of the host, rounded to the type in which they are sent.
template <class S, class Backend>
[[gnu::noinline]] void write_mean(Backend const& backend, message_list const& messages, std::span<S> out) {
    using compute = decltype(widen(S()));
    auto const values = dense_values_of<S>(messages);
    mean_gradient<S, compute> const mean{values.data(), values.size(), static_cast<compute>(values.size())};
    auto const write = [&](std::size_t) { // subnormals as the backend treats them
        for (std::size_t i = 0; i != out.size(); ++i) out[i] = S(mean.template load<compute>(i, all_lanes{}));
    };
    for_each_part(backend, 1, write, out.size_bytes());
}
// The mean in memory, for a step that leaves v alone.
template <class S> struct quiet_plain_gradient : plain_gradient<S> { static constexpr bool skips_rare_slots = true; };
} // namespace gradstep::detail::inline GRADSTEP_ISA
