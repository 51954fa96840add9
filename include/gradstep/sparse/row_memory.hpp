#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/sparse/row_addresses.hpp>
#include <gradstep/updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// Rows with gaps between them: each begins `stride` elements after the one before, and `elements`
/// begins with the first row. So a record of your application can contain a row's values and its
/// state:
///
///     std::span const records = ...;                        // 2 * width floats each
///     rows.memory(gs::strided{records, 2 * width},
///                 gs::strided{records.subspan(width), 2 * width}, stamps);
template <class T> struct strided {
    std::span<T> elements;
    std::size_t stride;
};
template <class Range>
strided(Range&&, std::size_t) -> strided<std::remove_reference_t<decltype(*std::data(std::declval<Range&>()))>>;
} // namespace GRADSTEP_ISA

namespace detail {
inline namespace GRADSTEP_ISA {
template <class Updater> struct row_index;
} // namespace GRADSTEP_ISA
} // namespace detail

inline namespace GRADSTEP_ISA {
/// The memory of a table's rows, as spans over the caller's memory: values, the state slots (row
/// slots are num_rows long), and stamps and touches if the row_updater needs them. Made by
/// `row_updater::memory`.
template <class Updater> struct row_memory {
    std::span<typename Updater::traits::storage> values;
    std::array<std::span<typename Updater::traits::state>, Updater::slots> state;
    std::span<std::uint32_t> stamps;
    std::span<std::uint32_t> touches;
    /// For rows with keys (`keyed_table`): the key, the low half of the last step that contained
    /// the row, and the number of such steps.
    std::span<std::uint64_t> keys = {};
    std::span<std::uint32_t> last_touches = {}, touch_counts = {};
    /// The distances between rows; 0 if there are no gaps.
    row_strides strides = {};
    /// Set if a table has its rows in several segments, and no span covers all of them.
    detail::row_index<Updater> const* index = nullptr;
};
} // namespace GRADSTEP_ISA

namespace detail {
inline namespace GRADSTEP_ISA {

// Rows in segments: each is a row_memory, and kernels find rows by pages of 2^shift.
template <class Updater> struct row_index {
    std::vector<row_memory<Updater>> segments;
    row_addresses<Updater> const* pages = nullptr; // in the memory of the backend
    std::uint32_t shift = 0;
};

// int64_t and similar types, mapped to one type of each size.
template <class Id>
using plain_id = std::conditional_t<sizeof(Id) == 4, std::int32_t,
                                    std::conditional_t<std::is_signed_v<Id>, std::int64_t, std::uint64_t>>;

// Throws value_error unless a count is in [least, 2^63).
template <std::integral Count> std::uint64_t counted(char const* name, Count count, std::uint64_t least) {
    bool const too_large = std::cmp_greater(count, std::numeric_limits<std::int64_t>::max());
    if (too_large || std::cmp_less(count, least))
        fail<value_error>(std::string(name) + " = " + text(count) + ": must be " +
                          (too_large ? "< 2^63" : ">= " + text(least)));
    return static_cast<std::uint64_t>(count);
}

// The additional columns of rows with keys.
struct kept_of_keyed_rows {
    bool keys = false, last_touches = false, touch_counts = false;
};

// Validates memory and arguments for the rows of a table: shapes, lengths, overlaps. It holds the
// number of rows and the width, and does not own memory. row_updater and the tables call it before
// they write anything.
template <class Updater, bool HasStamps> struct row_shape {
    using rule_type = typename Updater::rule_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using memory_space = typename Updater::backend_type::memory_space;
    using memory_type = row_memory<Updater>;
    static constexpr bool has_stamps = HasStamps;

    std::size_t width;
    std::uint64_t num_rows;
    bool has_touches;
    kept_of_keyed_rows keyed = {};

    // Checks `num_rows` for rows of this width, and converts it.
    template <std::integral Rows>
    static std::uint64_t counted_rows(Rows num_rows, std::size_t width, std::uint64_t least) {
        std::uint64_t const rows = counted("num_rows", num_rows, least);
        if (rows > std::numeric_limits<std::size_t>::max() / sizeof(double) / width)
            fail<size_error>("num_rows = " + text(rows) + " x width = " + text(width) +
                             ": more elements than can be counted");
        return rows;
    }

    // The caller's buffers as rows; row_updater::memory.
    template <class Values, class... Buffers> memory_type bind(Values& values, Buffers&... buffers) const {
        memory_type out;
        out.values = elements_of<storage>(values, out.strides.values, "values", width);
        place<0>(out, buffers...);
        check(out);
        auto const extents = extents_of(out);
        auto const rows = row_extents_of(out);
        for (std::size_t i = 0; i < extents.size(); ++i)
            for (std::size_t k = 0; k < i; ++k)
                if (!rows[i].is_between(rows[k], extents[i], extents[k]))
                    require_apart(extents[i], std::span(extents).subspan(k, 1));
        return out;
    }
    void check(memory_type const& rows) const {
        if (rows.index != nullptr) return check_segments(*rows.index);
        auto const strides = strides_of(rows);
        auto const require = [&](char const* name, auto span, bool is_there, std::size_t row, std::size_t stride) {
            if (!is_there && span.empty()) return;
            if (num_rows > 1 && num_rows - 1 > (std::numeric_limits<std::size_t>::max() - row) / stride)
                fail<size_error>(std::string(name) + " has " + text(span.size()) + " elements: must be " +
                                 text(num_rows - 1) + " x " + text(stride) + " + " + text(row) + " or more");
            std::uint64_t const least = num_rows == 0 ? 0 : (num_rows - 1) * stride + row;
            if (!is_there || (stride == row ? span.size() != least : span.size() < least))
                fail<size_error>(std::string(name) + " has " + text(span.size()) + " elements: must be " +
                                 text(is_there ? least : 0) + (stride == row ? "" : " or more"));
            if (least != 0 && span.data() == nullptr)
                fail<buffer_error>(std::string(name) + " is null: give " + text(least) + " elements of memory");
        };
        require("values", rows.values, true, width, strides.values);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            if (Updater::is_row_slot(i)) require(Updater::state_names[i], rows.state[i], true, 1, strides.row_state);
            else require(Updater::state_names[i], rows.state[i], true, width, strides.state);
        require("stamps", rows.stamps, HasStamps, 1, strides.stamps);
        require("touches", rows.touches, has_touches, 1, strides.stamps);
        require("keys", rows.keys, keyed.keys, 1, 1);
        require("last_touches", rows.last_touches, keyed.last_touches, 1, 1);
        require("touch_counts", rows.touch_counts, keyed.touch_counts, 1, 1);
    }

    // Calls f(segment), a row_memory, for each segment of the rows, in order.
    template <class F> void each_segment(memory_type const& rows, F const& f) const {
        if (rows.index == nullptr) return f(rows);
        for (memory_type const& segment : rows.index->segments) f(segment);
    }
    // Pointers to the rows, for kernels.
    rows_at<Updater> at(memory_type const& rows) const {
        rows_at<Updater> out;
        out.width = width;
        out.strides = strides_of(rows);
        if (rows.index != nullptr) {
            out.only = addresses_of(rows.index->segments[0]);
            out.pages = rows.index->pages;
            out.shift = rows.index->shift;
            out.mask = (std::uint64_t{1} << out.shift) - 1;
        } else {
            out.only = addresses_of(rows);
        }
        return out;
    }
    // Pointers to the first row.
    row_addresses<Updater> addresses_of(memory_type const& rows) const {
        row_addresses<Updater> out;
        out.weight = rows.values.data();
        host_each<slot_count<rule_type>>([&](auto i) { slot<i, rule_type>(out.state) = rows.state[i].data(); });
        constexpr std::size_t row_slots = row_slot_count<rule_type>;
        host_each<row_slots>(
            [&](auto i) { nth<i, row_slots>(out.row) = rows.state[slot_count<rule_type> + i].data(); });
        out.master = nullptr;
        if constexpr (traits::has_master) out.master = rows.state[Updater::slots - 1].data();
        out.stamp = HasStamps ? rows.stamps.data() : nullptr;
        out.touches = has_touches ? rows.touches.data() : nullptr;
        out.key = keyed.keys ? rows.keys.data() : nullptr;
        out.last_touch = keyed.last_touches ? rows.last_touches.data() : nullptr;
        out.touch_count = keyed.touch_counts ? rows.touch_counts.data() : nullptr;
        return out;
    }

    template <class Ids> static auto ids_of(Ids& ids) {
        using given = std::remove_const_t<element_type<Ids>>;
        static_assert(row_id<given>, "gradstep: ids and offsets are int32, int64 or uint64");
        auto const span = as_span<given const, memory_space>(ids);
        if (span.data() == nullptr && !span.empty())
            fail<buffer_error>("ids are null: give " + text(span.size()) + " elements of memory");
        using plain = plain_id<given>;
#if defined(__GNUC__)
        // For the compiler, int64_t and long long are two types that do not alias: values stored as
        // one type are loaded as the other only after this barrier.
        if constexpr (!std::is_same_v<plain, given>) asm volatile("" ::: "memory");
#endif
        return std::span(reinterpret_cast<plain const*>(span.data()), span.size());
    }

    // `count` rows of gradients, which must not overlap the table's memory.
    template <class Gradients>
    std::span<storage const> gradients(memory_type const& rows, Gradients& given_rows, std::size_t count,
                                       char const* what, step_options const& options) const {
        auto const given = as_span<storage const, memory_space>(given_rows);
        if (given.size() % width != 0 || given.size() / width != count)
            fail<size_error>("gradient rows have " + text(given.size()) + " elements: must be " + text(count) + " " +
                             what + " x width " + text(width));
        if (given.data() == nullptr && !given.empty())
            fail<buffer_error>("gradient rows are null: give " + text(given.size()) + " elements of memory");
        if (options.zero_gradient && std::is_const_v<element_type<Gradients>>)
            fail<buffer_error>("gradient rows are const, and zero_gradient is set: give writable memory");
        require_layout(given_rows, given);
        require_apart(extent::of("gradient", given), rows);
        return given;
    }
    template <class Backend, class Gradients>
    static void zero(Backend const& on, Gradients& given_rows, step_options const& options) {
        if constexpr (!std::is_const_v<element_type<Gradients>>)
            if (options.zero_gradient) fill(on, as_span<storage, memory_space>(given_rows), storage(0));
    }
    // Memory for copies of `count` rows, which must not overlap the table's memory.
    template <class T = storage, class Out>
    std::span<T> room(memory_type const& rows, std::size_t count, Out& out) const {
        auto const to = as_span<T, memory_space>(out);
        if (to.size() / width != count || to.size() % width != 0)
            fail<size_error>("out has " + text(to.size()) + " elements: must be " + text(count) + " ids x width " +
                             text(width));
        if (to.data() == nullptr && !to.empty())
            fail<buffer_error>("out is null: give " + text(to.size()) + " elements of memory");
        require_apart(extent::of("out", to), rows);
        return to;
    }

private:
    // Memory whose rows can lie between the rows of other memory.
    struct row_extent {
        std::size_t row_bytes, stride_bytes;

        // Whether no row overlaps a row of `other`, even if the rows are interleaved.
        bool is_between(row_extent const& other, extent const& mine, extent const& others) const {
            if (stride_bytes != other.stride_bytes || mine.bytes == 0 || others.bytes == 0) return false;
            auto const a = reinterpret_cast<std::uintptr_t>(mine.data),
                       b = reinterpret_cast<std::uintptr_t>(others.data);
            std::size_t const apart = (a > b ? a - b : b - a) % stride_bytes;
            return a > b ? apart >= other.row_bytes && stride_bytes - apart >= row_bytes
                         : apart >= row_bytes && stride_bytes - apart >= other.row_bytes;
        }
    };

    // A buffer of the caller. `stride` is set to the distance of its rows, which all buffers of one
    // kind share.
    template <class T, class Buffer>
    std::span<T> elements_of(Buffer& buffer, std::size_t& stride, char const* name, std::size_t row) const {
        std::size_t given = row;
        if constexpr (requires {
                          buffer.elements;
                          buffer.stride;
                      })
            given = buffer.stride;
        if (given < row)
            fail<value_error>(std::string(name) + ": rows " + text(given) + " elements apart: must be at least " +
                              text(row));
        if (stride != 0 && given != stride)
            fail<value_error>(std::string(name) + ": rows " + text(given) + " elements apart, and those before " +
                              text(stride) +
                              ": all slots of one width must be equally far apart, and stamps as touches");
        stride = given;
        if constexpr (requires {
                          buffer.elements;
                          buffer.stride;
                      })
            return as_span<T, memory_space>(buffer.elements);
        else return as_span<T, memory_space>(buffer);
    }
    row_strides strides_of(memory_type const& rows) const {
        auto const or_dense = [](std::size_t stride, std::size_t row) { return stride == 0 ? row : stride; };
        row_strides const& s = rows.strides;
        return {or_dense(s.values, width), or_dense(s.state, width), or_dense(s.row_state, 1), or_dense(s.stamps, 1)};
    }
    void check_segments(row_index<Updater> const& index) const {
        std::uint64_t rows = 0;
        for (auto const& segment : index.segments) rows += segment.values.size() / width;
        if (rows != num_rows)
            fail<size_error>("the segments have " + text(rows) + " rows: must have " + text(num_rows));
    }
    template <std::size_t I> void place(memory_type&) const {}
    template <std::size_t I, class First, class... Rest>
    void place(memory_type& out, First& first, Rest&... rest) const {
        if constexpr (I < Updater::slots)
            out.state[I] = elements_of<typename traits::state>(
                first, Updater::is_row_slot(I) ? out.strides.row_state : out.strides.state, Updater::state_names[I],
                Updater::is_row_slot(I) ? 1 : width);
        else if constexpr (I == Updater::slots && HasStamps)
            out.stamps = elements_of<std::uint32_t>(first, out.strides.stamps, "stamps", 1);
        else out.touches = elements_of<std::uint32_t>(first, out.strides.stamps, "touches", 1);
        place<I + 1>(out, rest...);
    }
    static auto extents_of(memory_type const& rows) {
        std::array<extent, Updater::slots + 3> out;
        for (std::size_t i = 0; i < Updater::slots; ++i) out[i] = extent::of(Updater::state_names[i], rows.state[i]);
        out[Updater::slots] = extent::of("values", rows.values);
        out[Updater::slots + 1] = extent::of("stamps", rows.stamps);
        out[Updater::slots + 2] = extent::of("touches", rows.touches);
        return out;
    }
    std::array<row_extent, Updater::slots + 3> row_extents_of(memory_type const& rows) const {
        auto const strides = strides_of(rows);
        std::array<row_extent, Updater::slots + 3> out;
        auto const of = [](std::size_t row, std::size_t stride, std::size_t bytes) {
            // A stride of more bytes than can be counted: there is only one row, so any large
            // stride is equivalent.
            return row_extent{row * bytes, std::min(stride, extent::most_bytes / bytes) * bytes};
        };
        for (std::size_t i = 0; i < Updater::slots; ++i)
            out[i] = Updater::is_row_slot(i) ? of(1, strides.row_state, sizeof(typename traits::state))
                                             : of(width, strides.state, sizeof(typename traits::state));
        out[Updater::slots] = of(width, strides.values, sizeof(storage));
        out[Updater::slots + 1] = out[Updater::slots + 2] = of(1, strides.stamps, sizeof(std::uint32_t));
        return out;
    }
    static void require_apart(extent const& buffer, memory_type const& rows) {
        if (rows.index == nullptr) return require_apart(buffer, extents_of(rows));
        for (auto const& segment : rows.index->segments) require_apart(buffer, extents_of(segment));
    }
    static void require_apart(extent const& buffer, std::span<extent const> others) {
        for (extent const& other : others)
            if (buffer.bytes != 0 && other.bytes != 0 && buffer.overlaps(other))
                fail<buffer_error>({buffer.name, " overlaps ", other.name, ": every buffer needs memory of its own"});
    }
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
