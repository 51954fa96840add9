#pragma once
/// The selection and update of entries of compressed steps and top_k in Thrust's memory;
/// thrust/backend.hpp includes it.
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/iterator/counting_iterator.h>

#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/compression/top_k.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/number/subnormals.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Source, class Key> struct look_at_sample {
    Source source;
    sample_indices chosen;
    Key* keys;
    GRADSTEP_HD void operator()(std::size_t j) const {
        keys[j] = key_of(source.foreseen(chosen.begin(j / chosen.run) + j % chosen.run));
    }
};
// Whether the key of element i is in [low, high).
template <class S, class Key> struct has_key_between {
    S const* made;
    Key low, high;
    GRADSTEP_HD bool operator()(std::size_t i) const {
        Key const key = key_of(widen(made[i]));
        return low <= key && key < high;
    }
};
template <class S, class Key> struct is_taken {
    S const* made;
    key_cut<Key> cut;
    GRADSTEP_HD bool operator()(std::size_t i) const { return cut.takes(key_of(widen(made[i])), i); }
};
template <class S, class Key> struct copy_key {
    S const* made;
    std::size_t const* indices;
    Key* keys;
    GRADSTEP_HD void operator()(std::size_t j) const { keys[j] = key_of(widen(made[indices[j]])); }
};
template <class Take> struct take_selected {
    Take take;
    std::size_t const* indices;
    GRADSTEP_HD void operator()(std::size_t entry) const { take(entry, indices[entry]); }
};
template <class Update, class T> struct update_entry {
    Update update;
    std::size_t const* indices;
    T const* sums;
    GRADSTEP_HD void operator()(std::size_t e) const { update(indices[e], sums[e]); }
};
// entry_selection with Thrust's algorithms; it selects the same entries. One kernel makes the pass.
// The keys in the bracket are counted, gathered and copied to the host, which finds the cut. If the
// bracket misses the cut, counting finds it, which needs no memory.
template <class Backend, class Source> class thrust_selection {
    using stored = typename Source::stored;
    using value = decltype(widen(stored()));
    using key_type = magnitude_key<value>;
    template <class T> using buffer = typename Backend::template buffer<T>;
    static constexpr key_type above_all = ~key_type(0);
    static constexpr bool on_host = std::is_same_v<typename Backend::memory_space, host_memory>;

public:
    thrust_selection(Backend const& backend, Source const& source, std::size_t k)
        : thrust_selection(backend, source, k, k, sample_indices::of(source.size())) {}
    static thrust_selection by_sample(Backend const& backend, Source const& source, std::size_t k, std::uint64_t seed,
                                      std::uint64_t stream) {
        std::size_t const n = source.size();
        return thrust_selection(backend, source, k, std::min(n, 2 * k), sample_indices::random(n, seed, stream));
    }
    std::size_t most() const { return most_; }

    std::size_t run() {
        if (n_ == 0) return 0;
        source_.make_all(*backend_);
        std::size_t const selected = cut();
        thrust::counting_iterator<std::size_t> const first(0);
        backend_->algorithm([&](auto const& policy) {
            thrust::copy_if(policy, first, first + static_cast<std::ptrdiff_t>(n_),
                            Backend::iterator(Backend::data(indices_)),
                            is_taken<stored, key_type>{source_.made(), cut_});
        });
        return selected_ = selected;
    }
    template <class T, class Make> void each_to(std::span<T> out, Make const& make) {
        if (selected_ == 0) return;
        std::size_t const* const indices = Backend::data(indices_);
        auto const take_to = [&](T* to) {
            using take = decltype(make(to));
            backend_->for_each(selected_, take_selected<take>{make(to), indices});
        };
        if constexpr (on_host) {
            take_to(out.data());
        } else {
            T* const to = reinterpret_cast<T*>(Backend::data(staged_));
            take_to(to);
            backend_->copy_to_host(std::span<T const>(to, out.size()), out);
        }
    }

private:
    thrust_selection(Backend const& backend, Source const& source, std::size_t k, std::size_t most,
                     sample_indices const& chosen)
        : backend_(&backend), source_(source), n_(source.size()), k_(k), most_(most), sampled_(chosen) {
        if (n_ == 0) return;
        std::vector<key_type> sample;
        if (!is_all_kept(n_, chosen)) {
            buffer<key_type> keys(chosen.size());
            backend.for_each(chosen.size(), look_at_sample<Source, key_type>{source, chosen, Backend::data(keys)});
            sample.resize(chosen.size());
            copy_out(keys, std::span(sample));
        }
        bracket_ = first_bracket<value>(sample, n_, k, most, chosen);
        // The index of each entry and at most one value, with padding for alignment.
        if constexpr (!on_host)
            staged_ = buffer<std::byte>(most * (sizeof(std::int64_t) + sizeof(value)) + sizeof(std::int64_t));
        indices_ = buffer<std::size_t>(std::max(most, bracket_.room));
        keys_ = buffer<key_type>(bracket_.room);
        host_indices_.resize(bracket_.room);
        host_keys_.resize(bracket_.room);
        counts_.resize(key_digits<key_type>::values);
    }
    template <class T> void copy_out(buffer<T>& from, std::span<T> to) const {
        backend_->copy_to_host(std::span<T const>(Backend::data(from), to.size()), to);
    }
    std::size_t count_between(key_type low, key_type high, std::size_t end) const {
        thrust::counting_iterator<std::size_t> const first(0);
        return backend_->algorithm([&](auto const& policy) {
            return static_cast<std::size_t>(
                thrust::count_if(policy, first, first + static_cast<std::ptrdiff_t>(end),
                                 has_key_between<stored, key_type>{source_.made(), low, high}));
        });
    }

    std::size_t cut() {
        key_type const high = bracket_.high.value_or(above_all);
        std::size_t const above = bracket_.high ? count_between(high, above_all, n_) : 0;
        std::size_t const kept = bracket_.low < high ? count_between(bracket_.low, high, n_) : 0;
        if (sampled_.at_random) {
            std::size_t const count = above + kept;
            if (count > most_) return cut_all(most_);
            if (count == 0) return cut_all(k_); // only zeros
            cut_ = {bracket_.low, n_};
            return count;
        }
        if (kept > bracket_.room || above >= k_ || k_ - above > kept) return cut_all(k_);
        thrust::counting_iterator<std::size_t> const first(0);
        backend_->algorithm([&](auto const& policy) {
            thrust::copy_if(policy, first, first + static_cast<std::ptrdiff_t>(n_),
                            Backend::iterator(Backend::data(indices_)),
                            has_key_between<stored, key_type>{source_.made(), bracket_.low, high});
        });
        backend_->for_each(kept,
                           copy_key<stored, key_type>{source_.made(), Backend::data(indices_), Backend::data(keys_)});
        copy_out(indices_, std::span(host_indices_).first(kept));
        copy_out(keys_, std::span(host_keys_).first(kept));
        cut_ = cut_of_kept<key_type>(k_ - above, counts_.data(), [&](auto const& f) {
            for (std::size_t j = 0; j != kept; ++j) f(kept_key<key_type>{host_keys_[j], host_indices_[j]});
        });
        return k_;
    }
    // Bit by bit: the largest key such that k entries have at least this key. Then the index below
    // which enough entries have exactly this key.
    std::size_t cut_all(std::size_t k) {
        key_type key = 0;
        for (int bit = key_digits<key_type>::bits; bit-- > 0;) {
            key_type const next = key | key_type(1) << bit;
            if (count_between(next, above_all, n_) >= k) key = next;
        }
        std::size_t const wanted = k - count_between(key + 1, above_all, n_);
        std::size_t low = 0, high = n_; // below the first there are too few, below the second enough
        while (high - low > 1) {
            std::size_t const middle = low + (high - low) / 2;
            if (count_between(key, key + 1, middle) >= wanted) high = middle;
            else low = middle;
        }
        cut_ = {key, high};
        return k;
    }

    Backend const* backend_;
    Source source_;
    std::size_t n_, k_, most_, selected_ = 0;
    sample_indices sampled_;
    key_bracket<value> bracket_;
    key_cut<key_type> cut_;
    buffer<std::size_t> indices_;
    buffer<key_type> keys_;
    buffer<std::byte> staged_; // written by a device for the host
    std::vector<std::size_t> host_indices_, counts_;
    std::vector<key_type> host_keys_;
};

// Applies the entries of messages, merged on the host, to an update on the backend.
template <class S, class Backend, class Update>
void scatter_on_thrust(Backend const& backend, Update const& update, message_list const& messages, std::size_t n) {
    using compute = typename Update::compute;
    std::size_t most = 0;
    for (sparse_message const* m : messages) most += m->count();
    std::vector<std::size_t> indices;
    std::vector<compute> sums;
    indices.reserve(most);
    sums.reserve(most);
    merged_messages<S, compute> const merged(messages, n, 1);
    {
        constexpr bool on_host = std::is_same_v<typename Backend::memory_space, host_memory>;
        flush_guard const guard(on_host ? subnormals::flush : subnormals::keep);
        merged.each(
            0, [](std::size_t) {},
            [&](std::size_t i, compute sum) {
                indices.push_back(i);
                sums.push_back(sum);
            });
    }
    if constexpr (std::is_same_v<typename Backend::memory_space, host_memory>) {
        backend.for_each(indices.size(), update_entry<Update, compute>{update, indices.data(), sums.data()});
    } else {
        typename Backend::template buffer<std::size_t> at(indices.size());
        typename Backend::template buffer<compute> of(sums.size());
        backend.copy_from_host(std::span<std::size_t const>(indices), Backend::data(at));
        backend.copy_from_host(std::span<compute const>(sums), Backend::data(of));
        backend.for_each(indices.size(), update_entry<Update, compute>{update, Backend::data(at), Backend::data(of)});
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
