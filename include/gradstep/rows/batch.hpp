#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// The types of row ids and of bag offsets: int32, int64 or uint64, under every name that C++ has
/// for them.
template <class T>
concept row_id = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> ||
    std::same_as<T, long long> || std::same_as<T, unsigned long long>;

/// What an update does with a row that one sparse batch contains several times.
///
///     sum            adds its gradients in batch order, in the compute type; then one update
///     mean           the same, divided by the number of occurrences
///     unique         throws value_error with the id and both positions, before anything is written
///     assume_unique  no check: the caller promises that it does not happen. If a batch breaks the
///                    promise, the result for this row is undefined
///     last           only the last of its gradients in the batch counts
///
/// PyTorch's SparseAdam, FBGEMM and TensorFlow's IndexedSlices sum too, but on a GPU often by
/// atomic additions, whose order and rounding vary from run to run.
enum class duplicates { sum, mean, unique, assume_unique, last };
template <> inline constexpr std::array enumerators<duplicates>{"sum", "mean", "unique", "assume_unique", "last"};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
// The distinct rows of a batch, and where the gradients of each row are. A trivially copyable view.
template <class Id> struct batch_rows {
    Id const* ids; // `count` distinct rows
    // Row r has the gradient rows sources[begin[r]] .. sources[begin[r + 1] - 1], in batch order.
    // Null: each row has one gradient.
    std::uint32_t const* begin;
    std::uint32_t const* sources; // null: gradient row r belongs to row r
    std::size_t count;
};

// The same with row numbers of 64 bits, whatever the type of the ids is: what kernels run on.
struct distinct_rows {
    std::uint64_t const* ids = nullptr;
    std::uint32_t const* begin = nullptr;
    std::uint32_t const* sources = nullptr;
    std::size_t count = 0;
    void const* factors = nullptr; // of each source, in the compute type; null: 1
};

// How many rows ahead a row is prefetched. Rows of 16 floats take 0.85 of the time that they take
// with half as many rows ahead (AMD Zen 4), rows of 64 floats 0.95; more rows ahead gain nothing.
inline constexpr std::size_t rows_ahead = 16;

// How many gradients ahead a gradient is prefetched. The gradients of a duplicate row are as far
// apart as its ids, so each read would wait. Prefetching this many reads them twice as fast.
inline constexpr std::size_t gradients_ahead = 32;

// A table, or the gradients of a batch, up to this many bytes stay in a core's second-level cache
// from one batch to the next: an update prefetches neither. For rows of 16 floats in that cache,
// prefetching took a tenth of an update's time.
inline constexpr std::size_t cache_block_bytes = std::size_t{256} << 10;

// Prefetches the memory of a row. Rows of a batch are at random addresses, which the hardware
// prefetcher cannot predict. For long rows, the first lines are enough for it to continue. Fetches
// for reading, into the second level: a fetch for writing waits for all other owners of the line,
// which costs more than it saves (123 against 78 ns for a row of 64 floats).
GRADSTEP_INLINE void prefetch_memory([[maybe_unused]] void const* p, [[maybe_unused]] std::size_t bytes) {
#if defined(__GNUC__)
    constexpr std::size_t line = 64, most = 16 * line;
    auto const* const begin = static_cast<char const*>(p);
    std::size_t const size = std::min(bytes, most);
    GRADSTEP_KEEP_LOOP
    for (std::size_t b = 0; b < size; b += line) __builtin_prefetch(begin + b, 0, 2);
#endif
}

// Positions in a batch are stored in 32 bits.
inline void require_countable(std::size_t count, char const* what) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    if (count > most) fail<size_error>({what}, {"there are ", count, " in one batch"}, {"at most ", most});
}

// Whether an id is padding. Compares bits: for uint64 ids, ignore_id = -1 means 2^64 - 1.
template <row_id Id> struct ignored_ids {
    Id id = 0;
    bool any = false;

    explicit ignored_ids(std::optional<std::int64_t> ignore_id) {
        if (!ignore_id) return;
        id = static_cast<Id>(*ignore_id);
        any = static_cast<std::int64_t>(id) == *ignore_id;
    }
    GRADSTEP_INLINE bool contain(Id x) const { return static_cast<bool>(any & (x == id)); }
};

[[noreturn, gnu::cold]] inline void refuse_id(std::size_t position, text_arg id, std::uint64_t num_rows,
                                              std::optional<std::int64_t> ignore_id) {
    fail<value_error>({"ids[", position, "]"}, {id, " is out of range"},
                      {"[0, ", num_rows, ignore_id ? ") or ignore_id = " : ")", ignore_id ? *ignore_id : text_arg("")});
}

template <class Bits>
std::size_t check_bits(std::span<Bits const> ids, bool are_signed, std::uint64_t num_rows,
                       std::optional<std::int64_t> ignore_id) {
    require_countable(ids.size(), "ids");
    using number = std::make_signed_t<Bits>;
    Bits const limit = static_cast<Bits>(are_signed ? std::min(num_rows, std::uint64_t(Bits(-1) / 2) + 1) : num_rows);
    ignored_ids<number> const ignored{ignore_id};
    Bits const padding = static_cast<Bits>(ignored.id), any = ignored.any;

    // Blocks of a fixed length, which g++ vectorizes even at -O2.
    auto const check = [&](Bits const* first, auto count) GRADSTEP_INLINE_LAMBDA {
        Bits outside = 0, skipped = 0;
        for (std::size_t i = 0; i < count; ++i) {
            Bits const x = first[i], skip = any & static_cast<Bits>(x == padding);
            outside |= static_cast<Bits>(x >= limit) & ~skip;
            skipped += skip;
        }
        if (outside != 0) {
            std::size_t p = static_cast<std::size_t>(first - ids.data());
            while (ids[p] < limit || (any != 0 && ids[p] == padding)) ++p;
            refuse_id(p, are_signed ? text_arg(static_cast<number>(ids[p])) : ids[p], num_rows, ignore_id);
        }
        return static_cast<std::size_t>(skipped);
    };
    std::size_t skipped = 0, p = 0;
    for (constexpr std::size_t block = 64; p + block <= ids.size(); p += block)
        skipped += check(ids.data() + p, std::integral_constant<std::size_t, block>{});
    return skipped + check(ids.data() + p, ids.size() - p);
}

// Throws value_error with the first id, in batch order, that is outside [0, num_rows) and not
// ignored. Throws size_error if there are too many ids. Returns the number of ignored ids.
template <row_id Id>
std::size_t check_ids(std::span<Id const> ids, std::uint64_t num_rows, std::optional<std::int64_t> ignore_id) {
    using bits = std::make_unsigned_t<Id>; // a negative id is too large
    std::span const all(reinterpret_cast<bits const*>(ids.data()), ids.size());
    return check_bits<bits>(all, std::signed_integral<Id>, num_rows, ignore_id);
}

// The check for duplicates::unique, with one bit per row of the table.
class duplicate_check {
public:
    // Throws value_error with the first id that occurs twice. The ids must be below num_rows. The
    // bitmap is all zero again afterwards, even after an exception.
    template <row_id Id>
    void operator()(std::span<Id const> ids, std::uint64_t num_rows, std::optional<std::int64_t> ignore_id) {
        std::size_t const words = static_cast<std::size_t>(num_rows / 64 + 1);
        if (bitmap_.size() < words) bitmap_.assign(std::max(words, 2 * bitmap_.size()), 0);
        ignored_ids<Id> const ignored{ignore_id};
        std::uint64_t* const bitmap = bitmap_.data();

        for (std::size_t p = 0; p < ids.size(); ++p) {
            bool const skip = ignored.contain(ids[p]);
            std::uint64_t const row = skip ? 0 : static_cast<std::uint64_t>(ids[p]);
            std::uint64_t const bit = std::uint64_t(!skip) << row % 64, seen = bitmap[row / 64];
            if ((seen & bit) != 0) {
                clear(ids.first(p), words, ignored);
                refuse(ids, p);
            }
            bitmap[row / 64] = seen | bit;
        }
        clear(ids, words, ignored);
    }

private:
    // Clearing one word at a random address costs as much as filling several words.
    static constexpr std::size_t words_an_id = 8;

    template <class Id> void clear(std::span<Id const> ids, std::size_t words, ignored_ids<Id> ignored) {
        if (words / words_an_id <= ids.size()) {
            std::fill_n(bitmap_.data(), words, 0);
        } else {
            for (Id const id : ids)
                if (!ignored.contain(id)) bitmap_[static_cast<std::uint64_t>(id) / 64] = 0;
        }
    }
    template <class Id> [[noreturn, gnu::cold]] static void refuse(std::span<Id const> ids, std::size_t position) {
        std::size_t before = 0;
        while (ids[before] != ids[position]) ++before;
        fail<value_error>({"ids[", position, "]"}, {ids[position], " appears before, at position ", before},
                          {"distinct ids, since duplicates is unique; sum adds their gradients"});
    }

    std::vector<std::uint64_t> bitmap_;
};

// Where bag b of a pooled batch ends in its ids. offsets: where each bag begins; a last entry with
// the number of ids is optional.
template <class Offsets> // given_ids
std::size_t end_of_bag(Offsets const& offsets, std::size_t ids, std::size_t b) {
    return b + 1 < offsets.size() ? static_cast<std::size_t>(offsets[b + 1]) : ids;
}

// Throws size_error or value_error with entry and value for offsets that are none. `rows`: the name
// of the buffer with a row for each bag.
template <class Offsets> void check_offsets(Offsets offsets, std::size_t ids, std::size_t bags, char const* rows) {
    require_countable(ids, "ids");
    require_countable(bags, "bags");
    if (offsets.size() != bags && offsets.size() != bags + 1)
        fail<size_error>({"offsets"}, {"has ", offsets.size(), " entries"},
                         {bags, " or ", bags + 1, ", since ", rows, " has ", bags, " rows"});
    if (bags == 0 && ids != 0)
        fail<size_error>({"ids"}, {"has ", ids, " elements, and there is no bag"}, {"0 elements"});

    auto const refuse = [&](std::size_t b, message_part expected) {
        text_arg const given = offsets.is_signed() ? text_arg(static_cast<std::int64_t>(offsets[b])) : offsets[b];
        fail<value_error>({"offsets[", b, "]"}, {given, " is out of range"}, expected);
    };
    std::uint64_t before = 0;
    for (std::size_t b = 0; b < offsets.size(); ++b) {
        std::uint64_t const first = offsets[b], last = std::exchange(before, first);
        if (first - last <= ids - last && (b != 0 || first == 0)) continue;
        if (b == 0 && first != 0) refuse(b, {"0"});
        bool const is_negative = offsets.is_signed() && first >> 63 != 0;
        if (first < last || is_negative) refuse(b, {"at least offsets[", b - 1, "] = ", last});
        refuse(b, {"at most ", ids, ", the number of ids"});
    }
    if (offsets.size() > bags && before != ids) refuse(bags, {ids, ", the number of ids"});
}

// Writes the bag of every id of a pooled batch, after the check of its offsets.
template <class Offsets>
void expand_offsets(Offsets offsets, std::size_t ids, std::size_t bags, std::vector<std::uint32_t>& bag_of) {
    check_offsets(offsets, ids, bags, "bag_rows");
    bag_of.resize(ids);
    for (std::size_t b = 0, p = 0; b < bags; ++b)
        for (std::size_t const end = end_of_bag(offsets, ids, b); p < end; ++p)
            bag_of[p] = static_cast<std::uint32_t>(b);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
