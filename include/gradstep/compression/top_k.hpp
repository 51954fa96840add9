#pragma once
#include <gradstep/base/detail/uninitialized.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/compression/detail/sampled_keys.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/number/pack.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The selection of entries of a tensor, as far as it does not depend on how a pass makes the
// tensor: of the values of type S at `made`. Which entries are selected depends on the values and
// on k alone, not on threads or packs.
template <class Backend, class S> class made_selection {
public:
    using value = decltype(widen(S()));
    using key_type = magnitude_key<value>;

    // The most entries that it may select.
    std::size_t most() const { return most_; }

    // take(entry, i) for each of them, in rising order of i, which has the number `entry` from 0
    // on; take = make(p), where what it writes at p arrives in `out`, memory of the host.
    template <class T, class Make> void each_to(std::span<T> out, Make const& make) {
        if (n_ != 0) each(make(out.data()));
    }

protected:
    using packs = typename pack_of_backend<Backend, value>::type;
    using digits = key_digits<key_type>;
    using kept_entry = kept_key<key_type>;
    // What a part of the pass has found; each on cache lines of its own.
    struct alignas(128) found {
        std::size_t kept = 0, above = 0, first_entry = 0;
        bool overflowed = false;
    };

    made_selection(Backend const& backend, S const* made, std::size_t n, std::size_t k, std::size_t most,
                   sample_indices const& chosen, std::size_t bytes)
        : backend_(backend), made_(made), n_(n), k_(k), most_(most), pass_bytes_(n * bytes), indices_(chosen),
          parts_(std::max<std::size_t>(1, parts_for(backend, pass_bytes_))) {}

    bool looks_at_sample() const { return !is_all_kept(n_, indices_); }
    // Takes the memory; `sample` holds the keys of the sample.
    [[gnu::noinline]] void reserve(std::span<key_type> sample) {
        bracket_ = first_bracket<value>(sample, n_, k_, most_, indices_);
        found_ = uninitialized_array<found>(parts_);
        kept_ = uninitialized_array<kept_entry>(parts_ * bracket_.room);
        counts_ = uninitialized_array<std::size_t>(parts_ * digits::values);
    }
    std::size_t first_of(std::size_t p) const { // whole cache lines of all elements
        return p == parts_ ? n_ : n_ / 64 * p / parts_ * 64;
    }
    kept_entry* kept_of(std::size_t p) const { return kept_.get() + p * bracket_.room; }
    key_type key_at(std::size_t i) const { return key_of(widen(made_[i])); }

    // After the pass: the cut, and how many are selected.
    [[gnu::noinline]] std::size_t cut() {
        found total;
        for (std::size_t p = 0; p != parts_; ++p) {
            total.kept += found_[p].kept;
            total.above += found_[p].above;
            total.overflowed = total.overflowed || found_[p].overflowed;
        }
        if (indices_.at_random) {
            std::size_t const count = bracket_.high ? total.above : total.kept;
            if (total.overflowed || count > most_) return cut_all(most_);
            if (count == 0) return cut_all(k_); // of zeros
            cut_ = {bracket_.low, n_};
            kept_all_ = !bracket_.high;
            return count;
        }
        std::size_t const wanted = k_;
        if (total.overflowed || total.above >= wanted || wanted - total.above > total.kept) return cut_all(k_);
        cut_ =
            cut_of_kept<key_type>(wanted - total.above, counts_.get(), [this](auto const& f) { this->each_kept(f); });
        kept_all_ = !bracket_.high;
        return k_;
    }

    Backend const& backend_;
    S const* made_;
    std::size_t n_, k_, most_, pass_bytes_;
    sample_indices indices_;
    std::size_t parts_;
    key_bracket<value> bracket_;
    uninitialized_array<found> found_;

private:
    template <class F> void each_kept(F const& f) const {
        for (std::size_t p = 0; p != parts_; ++p)
            for (std::size_t j = 0; j != found_[p].kept; ++j) f(kept_of(p)[j]);
    }

    // The cut of the k largest from all values, whatever the pass has found.
    std::size_t cut_all(std::size_t k) {
        std::size_t wanted = k;
        kept_all_ = false;
        cut_.key = key_at_rank<key_type>(wanted, counts_.get(), parts_, [&](auto digit, std::size_t* counts) {
            auto const count = [&](std::size_t p) {
                std::size_t* const of_part = counts + p * digits::values;
                for (std::size_t i = first_of(p), end = first_of(p + 1); i != end; ++i) {
                    key_type const key = key_at(i);
                    if (digit.concerns(key)) ++of_part[digit(key)];
                }
            };
            for_each_part(backend_, parts_, count, n_ * sizeof(S));
        });
        // The last digit's counts say in which part the last tie lies that is taken.
        std::size_t const last_digit = cut_.key & ((std::size_t(1) << digits::width(digits::count - 1)) - 1);
        std::size_t p = 0;
        for (; p + 1 != parts_ && counts_[p * digits::values + last_digit] < wanted; ++p)
            wanted -= counts_[p * digits::values + last_digit];
        for (std::size_t i = first_of(p); wanted != 0; ++i)
            if (key_at(i) == cut_.key) {
                --wanted;
                cut_.ties_end = i + 1;
            }
        return k;
    }

    // f(first, last, key) for the runs of part p in which those are taken that are not below a key.
    template <class F> void each_run(std::size_t p, F const& f) const {
        std::size_t const first = first_of(p), end = first_of(p + 1), ties = std::clamp(cut_.ties_end, first, end);
        f(first, ties, cut_.key);
        f(ties, end, cut_.key + 1);
    }
    std::size_t count_in(std::size_t p) const {
        std::size_t taken = 0;
        if (kept_all_) {
            for (std::size_t j = 0; j != found_[p].kept; ++j)
                taken += cut_.takes(kept_of(p)[j].key, kept_of(p)[j].index);
        } else {
            each_run(p, [&](std::size_t i, std::size_t end, key_type least) {
                for (; i < end; ++i) taken += key_at(i) >= least;
            });
        }
        return taken;
    }
    // f(i) for those that lie in part p. Where all values are looked at, half of the branches on
    // them could go wrong: the indices of a block are written down without any.
    template <class F> void take_in(std::size_t p, F const& f) const {
        if (kept_all_) {
            kept_entry const* const kept = kept_of(p);
            for (std::size_t j = 0; j != found_[p].kept; ++j)
                if (cut_.takes(kept[j].key, kept[j].index)) f(kept[j].index);
        } else {
            constexpr std::size_t block = 512;
            each_run(p, [&](std::size_t i, std::size_t end, key_type least) {
                std::uint16_t taken[block];
                for (std::size_t last; i < end; i = last) {
                    last = std::min(end, i + block);
                    std::size_t count = 0;
                    for (std::size_t j = i; j < last; ++j) {
                        taken[count] = static_cast<std::uint16_t>(j - i);
                        count += key_at(j) >= least;
                    }
                    for (std::size_t j = 0; j < count; ++j) f(i + taken[j]);
                }
            });
        }
    }
    [[gnu::noinline]] void count_taken() {
        auto const count = [&](std::size_t p) { found_[p].first_entry = count_in(p); };
        for_each_part(backend_, parts_, count, kept_all_ ? 0 : n_ * sizeof(S));
        std::size_t before = 0;
        for (std::size_t p = 0; p != parts_; ++p) before += std::exchange(found_[p].first_entry, before);
    }
    template <class Take> void each(Take const take) {
        count_taken();
        auto const take_part = [&](std::size_t p) {
            std::size_t entry = found_[p].first_entry;
            take_in(p, [&](std::size_t i) { take(entry++, i); });
        };
        // What is kept is in the cache, and each that is taken on other cache lines; else all
        // values are looked at.
        for_each_part(backend_, parts_, take_part, kept_all_ ? k_ * 256 : n_ * sizeof(S));
    }

    uninitialized_array<kept_entry> kept_;
    uninitialized_array<std::size_t> counts_;
    key_cut<key_type> cut_;
    bool kept_all_ = false; // whether what was kept holds all that are selected
};

// The selection of entries of `Source`, a tensor that one pass makes:
//
//     stored, made(), size(), bytes    the type of its elements in memory and where they are; the
//                                      traffic of one
//     make<V>(i) -> V                  the value of element i, or of as many from i on as V has
//                                      lanes, written there; once each
//     foreseen(i)                      the same before it is written
//     make_all(backend)                all of them, by the backend's `run`, for selections that
//                                      look at them afterwards
//
// All memory is taken when it is made.
template <class Backend, class Source> class entry_selection : public made_selection<Backend, typename Source::stored> {
    using base = made_selection<Backend, typename Source::stored>;
    using typename base::value, typename base::key_type, typename base::packs, typename base::kept_entry,
        typename base::found;

public:
    // The k largest of them, 1 <= k <= n; or, by a sample at random indices, those that are not
    // below the k-th largest of it, the 2 k largest if there are more.
    entry_selection(Backend const& backend, Source const& source, std::size_t k)
        : entry_selection(backend, source, k, k, sample_indices::of(source.size())) {}
    static entry_selection by_sample(Backend const& backend, Source const& source, std::size_t k, std::uint64_t seed,
                                     std::uint64_t stream) {
        std::size_t const n = source.size();
        return entry_selection(backend, source, k, std::min(n, 2 * k), sample_indices::random(n, seed, stream));
    }

    // The one pass over all elements, and the cut. Gives how many are selected.
    std::size_t run() {
        if (this->n_ == 0) return 0;
        for_each_part(
            this->backend_, this->parts_, [this](std::size_t p) { pass(p); }, this->pass_bytes_);
        return this->cut();
    }

private:
    entry_selection(Backend const& backend, Source const& source, std::size_t k, std::size_t most,
                    sample_indices const& chosen)
        : base(backend, source.made(), source.size(), k, most, chosen, Source::bytes), source_(source) {
        if (this->n_ == 0) return;
        std::size_t const count = this->looks_at_sample() ? chosen.size() : 0;
        uninitialized_array<key_type> const sample(count);
        if (count != 0) look_at(sample.get(), count);
        this->reserve({sample.get(), count});
    }
    void look_at(key_type* sample, std::size_t count) const {
        std::size_t const parts = count < 4096 ? 1 : this->parts_;
        auto const look = [&](std::size_t p) {
            sample_indices const chosen = this->indices_;
            for (std::size_t r = p * chosen.runs / parts; r != (p + 1) * chosen.runs / parts; ++r) {
                std::size_t const first = chosen.begin(r);
                for (std::size_t j = 0; j != chosen.run; ++j)
                    sample[r * chosen.run + j] = key_of(source_.foreseen(first + j));
            }
        };
        for_each_part(this->backend_, parts, look, count * 128);
    }

    void pass(std::size_t p) {
        Source const source = source_; // by value: what a store may alias would be read again after it
        found of_part;
        std::size_t const first = this->first_of(p), end = this->first_of(p + 1);
        if (this->bracket_.high) pass_between(source, first, end, this->kept_of(p), of_part);
        else pass_above(source, first, end, this->kept_of(p), of_part);
        this->found_[p] = of_part;
    }
    // Few are kept: groups of packs are looked at as a whole.
    void pass_above(Source const& source, std::size_t i, std::size_t end, kept_entry* kept, found& here) const {
        constexpr std::size_t lanes = pack_traits<packs>::size, unroll = 4, group = unroll * lanes;
        packs const low(magnitude_of<value>(this->bracket_.low));
        for (; i + group <= end; i += group) {
            auto below = math::abs(source.template make<packs>(i)) < low;
            GRADSTEP_UNROLL
            for (std::size_t u = 1; u < unroll; ++u)
                below = below & (math::abs(source.template make<packs>(i + u * lanes)) < low);
            if (math::all<packs>(below)) continue;
            for (std::size_t u = 0; u < group; u += lanes)
                if (!math::all<packs>(math::abs(pack_traits<packs>::load(this->made_ + i + u, all_lanes{})) < low))
                    keep(i + u, i + u + lanes, kept, here);
        }
        for (std::size_t j = i; j < end; ++j) source.template make<value>(j);
        keep(i, end, kept, here);
    }
    [[gnu::noinline]] void keep(std::size_t i, std::size_t end, kept_entry* kept, found& here) const {
        for (; i < end; ++i) {
            key_type const key = this->key_at(i);
            if (key < this->bracket_.low) continue;
            if (here.kept == this->bracket_.room) {
                here.overflowed = true;
                return;
            }
            kept[here.kept++] = {key, i};
        }
    }
    // Many are above: they are counted, by a number of each lane, and those in between kept.
    void pass_between(Source const& source, std::size_t i, std::size_t end, kept_entry* kept, found& here) const {
        constexpr std::size_t lanes = pack_traits<packs>::size, block = 4096;
        packs const low(magnitude_of<value>(this->bracket_.low)), high(magnitude_of<value>(*this->bracket_.high));
        packs const none(value(0)), one(value(1));
        while (i + lanes <= end) {
            packs above = none;
            std::size_t const stop = i + std::min(block, (end - i) / lanes * lanes);
            for (; i < stop; i += lanes) {
                packs const x = math::abs(source.template make<packs>(i));
                auto const is_above = !(x < high);
                above = above + math::select(is_above, one, none);
                if (!math::all<packs>(is_above | (x < low))) keep_between(i, i + lanes, kept, here);
            }
            alignas(64) value counts[lanes];
            pack_traits<packs>::store(counts, above, all_lanes{});
            for (value const count : counts) here.above += static_cast<std::size_t>(count);
        }
        for (; i < end; ++i) {
            source.template make<value>(i);
            here.above += this->key_at(i) >= *this->bracket_.high;
            keep_between(i, i + 1, kept, here);
        }
    }
    GRADSTEP_INLINE void keep_between(std::size_t i, std::size_t end, kept_entry* kept, found& here) const {
        if (here.kept + (end - i) > this->bracket_.room) {
            here.overflowed = here.overflowed || this->bracket_.low != *this->bracket_.high;
            return;
        }
        for (; i < end; ++i) {
            key_type const key = this->key_at(i);
            kept[here.kept] = {key, i};
            here.kept += key >= this->bracket_.low && key < *this->bracket_.high;
        }
    }

    Source source_;
};

// What selects on a backend: entry_selection, or what the backend names.
template <class Backend, class Source> struct selection_on { using type = entry_selection<Backend, Source>; };
template <class Backend, class Source>
requires(requires { typename Backend::template selection_engine<Source>; }) struct selection_on<Backend, Source> {
    using type = typename Backend::template selection_engine<Source>;
};

// Values as they lie in memory, for a selection.
template <class S> struct plain_values {
    using stored = S;
    static constexpr std::size_t bytes = sizeof(S);
    S const* at;
    std::size_t n;

    S const* made() const { return at; }
    template <class Backend> void make_all(Backend const&) const {}
    std::size_t size() const { return n; }
    template <pack V> GRADSTEP_HD V make(std::size_t i) const { return pack_traits<V>::load(at + i, all_lanes{}); }
    GRADSTEP_HD auto foreseen(std::size_t i) const { return widen(at[i]); }
};

// Where the indices of a selection go.
struct take_indices {
    std::int64_t* out;
    GRADSTEP_HD void operator()(std::size_t entry, std::size_t i) const { out[entry] = static_cast<std::int64_t>(i); }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Returns the indices of the k largest magnitudes in `values`, a buffer in the backend's memory,
/// in rising order. It returns exactly k indices. If magnitudes are equal, lower indices come
/// first. Infinities are larger than all numbers, and NaN is larger than infinity. It reads the
/// values once, or three times if k is more than a sixteenth of their number. Many equal magnitudes
/// need a few more reads. The result is the same for every backend and number of threads. On a
/// device it waits for the result. Throws buffer_error for null, and value_error if k is larger
/// than the number of values.
template <class Backend, class Buffer>
std::vector<std::int64_t> top_k(Backend const& backend, Buffer const& values, std::size_t k) {
    if constexpr (detail::require_contiguous<Buffer const>()) {
        auto const x = detail::checked_gradient<Backend>(values);
        if (k > x.size())
            detail::fail<value_error>({"top_k: k"}, {k, " is out of range"},
                                      {"at most ", x.size(), ", the number of values"});
        using source = detail::plain_values<std::remove_const_t<typename decltype(x)::element_type>>;
        std::vector<std::int64_t> out(k);
        if (k == 0) return out;
        typename detail::selection_on<Backend, source>::type selection(backend, source{x.data(), x.size()}, k);
        selection.run();
        selection.each_to(std::span<std::int64_t>(out.data(), k),
                          [](std::int64_t* at) { return detail::take_indices{at}; });
        return out;
    }
}
} // namespace gradstep::inline GRADSTEP_ISA
