#pragma once
#include <gradstep/base/detail/hash.hpp>
#include <gradstep/rows/batch.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Memory that is written before it is read. It grows geometrically, is never initialised and never
// shrinks. A copy starts empty.
class scratch {
public:
    scratch() = default;
    scratch(scratch const&) noexcept {}
    scratch(scratch&&) noexcept = default;
    scratch& operator=(scratch const&) noexcept { return *this; }
    scratch& operator=(scratch&&) noexcept = default;

    // Returns memory for `count` elements, with unspecified values.
    template <class T> T* of_size(std::size_t count) { return reinterpret_cast<T*>(of_bytes(count * sizeof(T))); }

private:
    [[gnu::noinline]] std::byte* of_bytes(std::size_t count) {
        if (count > size_) {
            std::size_t const size = std::max(count, size_ + size_ / 2);
            memory_.reset(); // frees first, so that both are never allocated together
            size_ = 0;
            memory_.reset(new std::byte[size]);
            size_ = size;
        }
        return memory_.get();
    }

    std::unique_ptr<std::byte[]> memory_;
    std::size_t size_ = 0;
};

// Chooses the part of an id. Its slot in a hash table comes from the same hash.
template <row_id Id> GRADSTEP_INLINE std::uint64_t first_hash(Id id) {
    return fibonacci_hash(static_cast<std::uint64_t>(id));
}

// The ids of a batch, grouped by the part that their rows belong to. Each thread can then aggregate
// one part without locks. First each chunk of the batch (as many chunks as parts) is sorted by
// part, then each part collects its ids from all chunks. In both phases, calls with different
// numbers can run concurrently. So each id is read the same number of times for any number of
// parts. Ignored ids belong to no part.
template <row_id Id> class id_partition {
public:
    // Allocates the memory for a batch. It must not move until all parts are collected. The
    // arguments are the same as for aggregator.
    void begin(std::span<Id const> ids, std::uint32_t const* sources_of, std::optional<std::int64_t> ignore_id,
               std::size_t parts) {
        require_countable(ids.size(), "ids");
        ids_ = ids, sources_of_ = sources_of, parts_ = parts;
        padding_ = ignored_ids<Id>(ignore_id);
        sorted_ = sorted_memory_.of_size<Id>(ids.size());
        sources_ = sources_memory_.of_size<std::uint32_t>(ids.size());
        ends_ = ends_memory_.of_size<std::uint32_t>(parts * stride());
    }
    std::size_t parts() const { return parts_; }

    // Sorts chunk `chunk` of parts() chunks, stably. ends_ holds where each part ends; part p
    // begins where part p - 1 ends.
    void sort(std::size_t chunk) {
        std::uint32_t* const ends = ends_ + chunk * stride();
        std::fill_n(ends, parts_ + 1, 0u);
        std::size_t const first = begin_of(chunk), last = begin_of(chunk + 1);
        for (std::size_t p = first; p < last; ++p) ++ends[part_of(ids_[p])];
        auto before = static_cast<std::uint32_t>(first);
        for (std::size_t part = 0; part <= parts_; ++part) before += std::exchange(ends[part], before);
        // ends[part] starts at the part's first entry and moves to its end.
        for (std::size_t p = first; p < last; ++p) {
            std::uint32_t const to = ends[part_of(ids_[p])]++;
            sorted_[to] = ids_[p];
            sources_[to] = sources_of_ ? sources_of_[p] : static_cast<std::uint32_t>(p);
        }
    }

    // Calls take(ids, sources, count) for the ids of a part in each sorted chunk, in batch order.
    template <class Take> void each_chunk(std::size_t part, Take const& take) const {
        for (std::size_t chunk = 0; chunk < parts_; ++chunk) {
            std::uint32_t const* const ends = ends_ + chunk * stride();
            std::size_t const first = part == 0 ? begin_of(chunk) : ends[part - 1];
            take(sorted_ + first, sources_ + first, ends[part] - first);
        }
    }

private:
    // The number of counters per chunk: one per part and one for ignored ids, plus a gap, so that
    // threads which count different chunks do not write to the same cache line.
    std::size_t stride() const {
        constexpr std::size_t line = 64 / sizeof(std::uint32_t);
        return parts_ + 1 + line;
    }
    std::size_t begin_of(std::size_t chunk) const { return chunk * ids_.size() / parts_; }
    GRADSTEP_INLINE std::size_t part_of(Id id) const {
        std::size_t const part = static_cast<std::size_t>((first_hash(id) >> 32) * parts_ >> 32);
        return padding_.contain(id) ? parts_ : part;
    }

    std::span<Id const> ids_;
    std::uint32_t const* sources_of_ = nullptr;
    ignored_ids<Id> padding_{std::nullopt};
    std::size_t parts_ = 0;
    Id* sorted_ = nullptr;
    std::uint32_t *sources_ = nullptr, *ends_ = nullptr;
    scratch sorted_memory_, sources_memory_, ends_memory_;
};

// Turns the ids of a batch into distinct rows. It owns the memory for this, and reuses it for the
// next batch, of any type of ids. The ids were validated by check_ids. A result is valid until the
// next call, and as long as the arguments are.
//
// taken: ids that are not ignored, and where their gradients are, from compact or collect.
// sources_of: the gradient row (the bag) of each id; null if gradient row p belongs to ids[p].
class aggregator {
public:
    using ignored = std::optional<std::int64_t>;

    // Returns the rows in order of first occurrence, in time proportional to the number of ids,
    // even for adversarial ids.
    template <class Id> batch_rows<Id> by_hash(batch_rows<Id> const& taken) {
        if (is_ascending(taken)) return taken;
        std::uint32_t* const row_of = row_of_.of_size<std::uint32_t>(taken.count);
        auto const found = find_rows(taken, row_of);
        std::size_t const rows = found ? *found : find_rows_by_radix(taken, row_of);
        if (rows == taken.count) return taken;
        std::uint32_t* const begin = begin_.of_size<std::uint32_t>(rows + 2);
        return {rows_.of_size<Id>(rows) + 1, begin, grouped(taken.sources, taken.count, row_of, begin, rows), rows};
    }

    // Returns the rows in ascending order, by a stable radix sort that starts at the least
    // significant digit. Suits huge tables of narrow rows: memory is then visited in order.
    template <class Id> batch_rows<Id> by_radix(batch_rows<Id> const& taken, std::uint64_t num_rows) {
        if (is_ascending(taken)) return taken;
        int const bits = num_rows == 0 ? 0 : static_cast<int>(std::bit_width(num_rows - 1));
        if constexpr (sizeof(Id) > sizeof(std::uint32_t))
            if (bits > 32) return merged(taken, sorted<long_record>(taken, bits));
        return merged(taken, sorted<short_record>(taken, std::min(bits, 32)));
    }

    // Returns the same rows with numbers of 64 bits.
    template <class Id> distinct_rows widened(batch_rows<Id> const& rows) {
        if constexpr (sizeof(Id) == sizeof(std::uint64_t)) {
            return {reinterpret_cast<std::uint64_t const*>(rows.ids), rows.begin, rows.sources, rows.count};
        } else {
            std::uint64_t* const wide = wide_.of_size<std::uint64_t>(rows.count);
            for (std::size_t r = 0; r < rows.count; ++r) wide[r] = static_cast<std::uint64_t>(rows.ids[r]);
            return {wide, rows.begin, rows.sources, rows.count};
        }
    }

    // Returns the ids without the ignored ones; `some`: whether there are ignored ones. Allocates
    // its memory with the first batch in any case. Not inlined: all rules share it, and g++ would
    // warn about an optional without a value.
    template <row_id Id>
    [[gnu::noinline]] batch_rows<Id> compact(std::span<Id const> ids, std::uint32_t const* sources_of,
                                             ignored ignore_id, bool some = true) {
        require_countable(ids.size(), "ids");
        batch_rows<Id> const all{ids.data(), nullptr, sources_of, ids.size()};
        ignored_ids<Id> const padding{ignore_id};
        if (!padding.any) return all;

        Id* const taken = taken_.of_size<Id>(ids.size());
        std::uint32_t* const taken_from = taken_from_.of_size<std::uint32_t>(ids.size());
        if (!some) return all;
        std::size_t count = 0;
        // Without branches on the id: they could not be predicted.
        for (std::size_t p = 0; p < ids.size(); ++p) {
            Id const id = ids[p];
            taken[count] = id;
            taken_from[count] = sources_of ? sources_of[p] : static_cast<std::uint32_t>(p);
            count += !padding.contain(id);
        }
        return count == all.count ? all : batch_rows<Id>{taken, nullptr, taken_from, count};
    }

    // Returns the ids of one part of a batch whose chunks are sorted.
    template <class Id> batch_rows<Id> collect(id_partition<Id> const& of, std::size_t part) {
        std::size_t count = 0;
        of.each_chunk(part, [&](Id const*, std::uint32_t const*, std::size_t n) { count += n; });
        Id* const taken = taken_.of_size<Id>(count);
        std::uint32_t* const taken_from = taken_from_.of_size<std::uint32_t>(count);
        std::size_t at = 0;
        of.each_chunk(part, [&](Id const* ids, std::uint32_t const* sources, std::size_t n) {
            std::copy_n(ids, n, taken + at);
            std::copy_n(sources, n, taken_from + at);
            at += n;
        });
        return {taken, nullptr, taken_from, count};
    }

    // Numbers the rows in order of first occurrence. Writes their ids to rows_ from 1 on, the
    // number of occurrences of row r to begin_[r + 2], and the row of each id to row_of. Returns
    // the number of rows, or nullopt if it would need too many probes. The found test has no
    // branch, since half of the branches would be mispredicted. Not inlined: all rules share it.
    template <class Id>
    [[gnu::noinline]] std::optional<std::size_t> find_rows(batch_rows<Id> const& taken, std::uint32_t* row_of) {
        // At most half full, or a quarter if that fits into the second-level cache.
        std::size_t const room = taken.count <= 1u << 14 ? 4 : 2;
        std::size_t const size = std::bit_ceil(std::max<std::size_t>(room * taken.count, 2)), last = size - 1;
        int const shift = 64 - std::countr_zero(size);
        entry* const table = table_.of_size<entry>(size);
        std::fill_n(table, size, entry(0));
        Id* const rows = rows_.of_size<Id>(taken.count + 1);
        std::uint32_t* const begin = begin_.of_size<std::uint32_t>(taken.count + 2);

        // The slots of the next ids: computed when their entries are prefetched.
        std::size_t slots[ahead];
        auto const fetch = [&](std::size_t p) GRADSTEP_INLINE_LAMBDA {
            std::size_t const slot = static_cast<std::size_t>(second_hash(taken.ids[p]) >> shift);
            prefetch(table + slot);
            slots[p % ahead] = slot;
        };
        for (std::size_t p = 0; p < std::min(ahead, taken.count); ++p) fetch(p);

        std::size_t probes = most_probes(taken.count);
        std::uint32_t count = 0;
        for (std::size_t p = 0; p < taken.count; ++p) {
            std::size_t slot = slots[p % ahead];
            if (p + ahead < taken.count) fetch(p + ahead);
            Id const id = taken.ids[p];
            entry const tagged = static_cast<entry>(id) << 32;
            rows[0] = id; // an empty entry refers to this row, and so to no other one
            entry found = table[slot];
            auto const belongs = [&](entry x)
                                     GRADSTEP_INLINE_LAMBDA { return has_tag(x, tagged) && is_row(rows, x, id); };
            // Unlikely: otherwise g++ keeps in memory what every id needs, and in registers what
            // only this branch needs (1.15 of the time).
            if (!belongs(found)) [[unlikely]] {
                do {
                    if (probes-- == 0) return std::nullopt;
                    slot = (slot + 1) & last;
                    found = table[slot];
                } while (!belongs(found));
            }
            std::uint32_t const fresh = found == 0;
            std::uint32_t const number = static_cast<std::uint32_t>(found) | ((0 - fresh) & (count + 1));
            table[slot] = tagged | number;
            rows[count + 1] = id;
            begin[count + 2] = 0;
            count += fresh;
            ++begin[number + 1];
            row_of[p] = number - 1;
        }
        return count;
    }

    // The limit of probes of find_rows beyond the first entry of each id. In a half-full table an
    // id finds its entry after half an extra probe on average, for arbitrary ids. With knowledge of
    // the constants below, one can choose ids that all map to one slot, and each would be compared
    // with all ids before it.
    static constexpr std::size_t most_probes(std::size_t ids) { return 4 * ids + 64; }

private:
    // Whether each id is larger than the one before: the ids are distinct, and in order.
    template <class Id> static bool is_ascending(batch_rows<Id> const& taken) {
        std::size_t p = 1;
        while (p < taken.count && taken.ids[p - 1] < taken.ids[p]) ++p;
        return p >= taken.count;
    }

    // An entry of the hash table: the low half of the id | 1 + the number of its row. 0: empty.
    using entry = std::uint64_t;

    // Uses two multiplications: the first chooses the part, the second the slot in the part's
    // table. So the ids of a part spread over its whole table.
    template <class Id> static GRADSTEP_INLINE std::uint64_t second_hash(Id id) {
        std::uint64_t const h = first_hash(id);
        return (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    }

    // Does the work of find_rows in a time that does not depend on the ids. It takes three times as
    // long for arbitrary ids.
    template <class Id>
    [[gnu::cold, gnu::noinline]] std::size_t find_rows_by_radix(batch_rows<Id> const& taken, std::uint32_t* row_of) {
        std::uint64_t all = 0;
        for (std::size_t p = 0; p < taken.count; ++p) all |= static_cast<std::uint64_t>(taken.ids[p]);
        int const bits = static_cast<int>(std::bit_width(all));
        if (bits <= 32) find_first_of_row(sorted<short_record>(taken, bits), taken.count, row_of);
        else find_first_of_row(sorted<long_record>(taken, bits), taken.count, row_of);

        Id* const rows = rows_.of_size<Id>(taken.count + 1);
        std::uint32_t* const begin = begin_.of_size<std::uint32_t>(taken.count + 2);
        std::uint32_t count = 0;
        for (std::size_t p = 0; p < taken.count; ++p) {
            if (row_of[p] == p) {
                rows[count + 1] = taken.ids[p];
                begin[count + 2] = 0;
                row_of[p] = count++;
            } else {
                row_of[p] = row_of[row_of[p]];
            }
            ++begin[row_of[p] + 2];
        }
        return count;
    }
    // Writes the position at which the row of each id first occurs. Records of equal ids are in the
    // order of their positions.
    template <class Record>
    static void find_first_of_row(Record const* records, std::size_t count, std::uint32_t* first) {
        std::uint32_t of_run = 0;
        for (std::size_t i = 0; i < count; ++i) {
            auto const p = static_cast<std::uint32_t>(records[i].position());
            if (i == 0 || records[i].id() != records[i - 1].id()) of_run = p;
            first[p] = of_run;
        }
    }

    // How many ids ahead the entry is prefetched: most of a collision's cost is waiting for the
    // entry.
    static constexpr std::size_t ahead = 16;

    static GRADSTEP_INLINE void prefetch([[maybe_unused]] entry* at) {
#if defined(__GNUC__)
        __builtin_prefetch(at, 1);
#endif
    }

    // Whether an entry has the tag of the id, or is empty. A product of two 32-bit numbers, which
    // no compiler turns into two branches.
    static GRADSTEP_INLINE bool has_tag(entry found, entry tagged) {
        return (found & 0xffffffffu) * ((found ^ tagged) >> 32) == 0;
    }

    // Whether an entry that has the tag of the id, or is empty, belongs to the id. For 32-bit ids
    // the tag is the whole id.
    template <class Id> static GRADSTEP_INLINE bool is_row(Id const* rows, entry found, Id id) {
        return sizeof(Id) == 4 || rows[static_cast<std::uint32_t>(found)] == id;
    }

    static GRADSTEP_INLINE std::uint32_t source(std::uint32_t const* sources, std::size_t p) {
        return sources ? sources[p] : static_cast<std::uint32_t>(p);
    }

    // Returns the sources of `count` ids, sorted by row: a counting sort. begin[r + 1] starts where
    // row r begins and moves to its end.
    std::uint32_t const* grouped(std::uint32_t const* from, std::size_t count, std::uint32_t const* row_of,
                                 std::uint32_t* begin, std::size_t rows) {
        begin[0] = begin[1] = 0;
        for (std::size_t r = 0; r < rows; ++r) begin[r + 2] += begin[r + 1];
        std::uint32_t* const sources = sources_.of_size<std::uint32_t>(count);
        for (std::size_t p = 0; p < count; ++p) sources[begin[row_of[p] + 1]++] = source(from, p);
        return sources;
    }

    // What the radix sort sorts: an id, and its position among the ids that are not ignored.
    struct short_record { // for ids of 32 bits
        std::uint64_t bits;
        static GRADSTEP_INLINE short_record of(std::uint64_t id, std::size_t p) { return {id << 32 | p}; }
        GRADSTEP_INLINE std::uint64_t id() const { return bits >> 32; }
        GRADSTEP_INLINE std::size_t position() const { return static_cast<std::uint32_t>(bits); }
    };
    struct long_record {
        std::uint64_t bits;
        std::size_t p;
        static GRADSTEP_INLINE long_record of(std::uint64_t id, std::size_t p) { return {id, p}; }
        GRADSTEP_INLINE std::uint64_t id() const { return bits; }
        GRADSTEP_INLINE std::size_t position() const { return p; }
    };

    template <class Record, class Id> Record const* sorted(batch_rows<Id> const& taken, int bits) {
        Record* const records = records_.of_size<Record>(2 * taken.count);
        for (std::size_t p = 0; p < taken.count; ++p)
            records[p] = Record::of(static_cast<std::uint64_t>(taken.ids[p]), p);
        return sorted(records, taken.count, bits);
    }
    // Behind the records is room for as many.
    template <class Record> [[gnu::noinline]] Record const* sorted(Record* from, std::size_t n, int bits) {
        // With few ids, many counters do not pay.
        int const widest = n < 4096 ? 8 : 12, digits = std::max((bits + widest - 1) / widest, 1);
        int const width = (bits + digits - 1) / digits;
        std::size_t const radix = std::size_t(1) << width;
        Record* to = from + n;
        std::uint32_t* const counts = counts_.of_size<std::uint32_t>(radix);
        auto const digit = [&](Record const& x, int d) GRADSTEP_INLINE_LAMBDA {
            return static_cast<std::size_t>(x.id() >> d * width) & (radix - 1);
        };

        for (int d = 0; d < digits; ++d) {
            std::fill_n(counts, radix, 0u);
            for (std::size_t i = 0; i < n; ++i) ++counts[digit(from[i], d)];
            std::uint32_t before = 0;
            for (std::size_t x = 0; x < radix; ++x) before += std::exchange(counts[x], before);
            for (std::size_t i = 0; i < n; ++i) to[counts[digit(from[i], d)]++] = from[i];
            std::swap(from, to);
        }
        return from;
    }

    // Makes one row of each run of equal ids.
    template <class Id, class Record> batch_rows<Id> merged(batch_rows<Id> const& taken, Record const* records) {
        Id* const rows = rows_.of_size<Id>(taken.count + 1);
        std::uint32_t* const begin = begin_.of_size<std::uint32_t>(taken.count + 2);
        std::uint32_t* const sources = sources_.of_size<std::uint32_t>(taken.count);
        begin[0] = 0;
        std::size_t count = 0;
        for (std::size_t i = 0; i < taken.count; ++i) {
            count += i == 0 || records[i].id() != records[i - 1].id();
            rows[count - 1] = static_cast<Id>(records[i].id());
            begin[count] = static_cast<std::uint32_t>(i + 1);
            sources[i] = source(taken.sources, records[i].position());
        }
        return {rows, count == taken.count ? nullptr : begin, sources, count};
    }

    scratch taken_, rows_, wide_, taken_from_, row_of_, begin_, sources_, counts_, table_, records_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
