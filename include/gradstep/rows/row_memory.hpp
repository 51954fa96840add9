#pragma once
#include <gradstep/rows/detail/row_columns.hpp>
#include <gradstep/rows/row_addresses.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// Rows with gaps between them. Each row begins `stride` elements after the previous row, and
/// `elements` begins with the first row. A record of your application can thus contain a row's
/// values and its state:
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
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Updater> struct row_index;
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The memory of a table's rows, as spans over the caller's memory. It contains values, the state
/// slots (row slots are num_rows long), and stamps and touches if the row_updater needs them.
/// `row_updater::memory` makes it.
template <class Updater> struct row_memory {
    std::span<typename Updater::traits::storage> values;
    std::array<std::span<typename Updater::traits::state>, Updater::slots> state;
    std::span<std::uint32_t> stamps;
    std::span<std::uint32_t> touches;
    /// For a `keyed_table`: the key of each row, the low half of the last step that contained the
    /// row, and the number of such steps.
    std::span<std::uint64_t> keys = {};
    std::span<std::uint32_t> last_touches = {}, touch_counts = {};
    /// The distances between rows; 0 if there are no gaps.
    row_strides strides = {};
    /// Set if a table has its rows in several segments, and no span covers all of them.
    detail::row_index<Updater> const* index = nullptr;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
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
        fail<value_error>({name}, {count, " is out of range"}, {too_large ? "< 2^63" : ">= " + text(least)});
    return static_cast<std::uint64_t>(count);
}

// The values and state slots of rows of this width, as columns without memory.
template <class Updater> std::array<row_column, Updater::slots + 1> columns_of(std::size_t width) {
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;
    std::array<row_column, Updater::slots + 1> out{row_column::of<storage>("values", width)};
    for (std::size_t i = 0; i < Updater::slots; ++i) {
        bool const is_number = Updater::is_row_slot(i);
        out[i + 1] = row_column::of<state>(Updater::state_names[i], is_number ? 1 : width, is_number);
    }
    return out;
}
// The addresses of row r of columns in memory; null for a column without memory.
template <std::size_t N>
std::array<std::byte*, N> pointers_of(std::array<row_column, N> const& columns, std::uint64_t r) {
    std::array<std::byte*, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = columns[i].row(r);
    return out;
}
// The addresses of a row in the order of its columns.
template <class Updater>
std::array<std::byte*, Updater::slots + 1 + columns_beside_state> pointers_of(row_addresses<Updater> const& row) {
    using rule = typename Updater::rule_type;
    constexpr std::size_t wide = slot_count<rule>, narrow = row_slot_count<rule>;
    std::array<std::byte*, Updater::slots + 1 + columns_beside_state> out;
    std::byte** next = out.data();
    auto const add = [&](auto* p) { *next++ = reinterpret_cast<std::byte*>(p); };
    add(row.weight);
    host_each<wide>([&](auto i) { add(slot<i, rule>(row.state)); });
    host_each<narrow>([&](auto i) { add(nth<i, narrow>(row.row)); });
    if constexpr (Updater::traits::has_master) add(row.master);
    add(row.last_step);
    add(row.update_count);
    add(row.key);
    add(row.last_touch);
    add(row.touch_count);
    return out;
}

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
    kept_columns kept = {}; // without `stamps`, which is HasStamps

    // The columns of a table: without memory, or where `rows`, which are not in segments, has them.
    using columns_type = std::array<row_column, Updater::slots + 1 + columns_beside_state>;
    columns_type columns() const {
        columns_type out;
        std::ranges::copy(columns_of<Updater>(width), out.begin());
        kept_columns all = kept;
        all.stamps = HasStamps;
        describe_columns(all, out.data() + Updater::slots + 1);
        return out;
    }
    columns_type columns(memory_type const& rows) const {
        columns_type out = columns();
        row_column* next = out.data();
        each_span(rows, [&](auto const& span, std::size_t stride, std::size_t) {
            next->data = reinterpret_cast<std::byte*>(span.data());
            next->size = span.size();
            next->stride = stride == 0 ? next->row_elements : stride;
            ++next;
        });
        return out;
    }

    // Checks `num_rows` for rows of this width, and converts it.
    template <std::integral Rows>
    static std::uint64_t counted_rows(Rows num_rows, std::size_t width, std::uint64_t least) {
        std::uint64_t const rows = counted("num_rows", num_rows, least);
        if (rows > std::numeric_limits<std::size_t>::max() / sizeof(double) / width)
            fail<size_error>({"num_rows"}, {rows, " rows of width ", width, " have more elements than can be counted"},
                             {"fewer rows"});
        return rows;
    }

    // The caller's buffers as rows; row_updater::memory.
    template <class Values, class... Buffers> memory_type bind(Values& values, Buffers&... buffers) const {
        memory_type out;
        out.values = elements_of<storage>(values, out.strides.values, "values", width);
        assign<0>(out, buffers...);
        check(out);
        require_apart(columns(out));
        return out;
    }
    void check(memory_type const& rows) const {
        if (rows.index != nullptr) return check_segments(*rows.index);
        // Every update checks: what fits is found inline. A column that the table does not keep may
        // have a stride, since stamps and touches share theirs.
        bool fits = true;
        each_span(rows, [&](auto const& span, std::size_t stride, std::size_t row_elements) GRADSTEP_INLINE_LAMBDA {
            std::size_t const size = static_cast<std::size_t>(num_rows) * row_elements;
            fits = fits && (row_elements == 0 || stride <= row_elements) && span.size() == size &&
                   (size == 0 || span.data() != nullptr);
        });
        if (!fits) check_columns(columns(rows), num_rows);
    }

    // The first `rows` rows of columns without gaps.
    memory_type memory_of(row_columns all, std::uint64_t rows) const noexcept {
        memory_type out;
        row_column const* next = all.data();
        each_span(out, [&]<class T>(std::span<T>& span, std::size_t, std::size_t) {
            if (next->data != nullptr)
                span = {reinterpret_cast<T*>(next->data), static_cast<std::size_t>(rows) * next->row_elements};
            ++next;
        });
        return out;
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
        out.last_step = HasStamps ? rows.stamps.data() : nullptr;
        out.update_count = kept.touches ? rows.touches.data() : nullptr;
        out.key = kept.keys ? rows.keys.data() : nullptr;
        out.last_touch = kept.last_touches ? rows.last_touches.data() : nullptr;
        out.touch_count = kept.touch_counts ? rows.touch_counts.data() : nullptr;
        return out;
    }

    template <class Ids> static auto ids_of(Ids& ids) {
        using given = std::remove_const_t<element_type<Ids>>;
        static_assert(row_id<given>,
                      "gradstep: ids and offsets: they are of another type; expected int32, int64 or uint64");
        auto const span = as_span<given const, memory_space>(ids);
        if (span.data() == nullptr && !span.empty())
            fail<buffer_error>({"ids"}, {"is null"}, {span.size(), " elements of memory"});
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
        require_gradient_rows(given.size(), given.data(), count, what, width);
        if (options.zero_gradient && std::is_const_v<element_type<Gradients>>)
            fail<buffer_error>({"gradient_rows"}, {"is const, and zero_gradient is set"}, {"writable memory"});
        require_layout(given_rows, given);
        require_apart_from(rows, extent::of("gradient", given));
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
        require_room(to.size(), to.data(), count, width);
        require_apart_from(rows, extent::of("out", to));
        return to;
    }

private:
    // Calls f(span, stride, row_elements) for each column, in order.
    template <class Memory, class F> GRADSTEP_INLINE void each_span(Memory& rows, F const& f) const {
        row_strides const& s = rows.strides;
        f(rows.values, s.values, width);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            if (Updater::is_row_slot(i)) f(rows.state[i], s.row_state, std::size_t{1});
            else f(rows.state[i], s.state, width);
        f(rows.stamps, s.stamps, std::size_t{HasStamps});
        f(rows.touches, s.stamps, std::size_t{kept.touches});
        f(rows.keys, std::size_t{0}, std::size_t{kept.keys});
        f(rows.last_touches, std::size_t{0}, std::size_t{kept.last_touches});
        f(rows.touch_counts, std::size_t{0}, std::size_t{kept.touch_counts});
    }
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
        require_stride(name, given, row, stride);
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
        if (rows != num_rows) fail<size_error>({"segments"}, {"there are ", rows, " rows"}, {num_rows});
    }
    template <std::size_t I> void assign(memory_type&) const {}
    template <std::size_t I, class First, class... Rest>
    void assign(memory_type& out, First& first, Rest&... rest) const {
        if constexpr (I < Updater::slots)
            out.state[I] = elements_of<typename traits::state>(
                first, Updater::is_row_slot(I) ? out.strides.row_state : out.strides.state, Updater::state_names[I],
                Updater::is_row_slot(I) ? 1 : width);
        else if constexpr (I == Updater::slots && HasStamps)
            out.stamps = elements_of<std::uint32_t>(first, out.strides.stamps, "stamps", 1);
        else out.touches = elements_of<std::uint32_t>(first, out.strides.stamps, "touches", 1);
        assign<I + 1>(out, rest...);
    }
    void require_apart_from(memory_type const& rows, extent const& buffer) const {
        each_segment(rows, [&](memory_type const& segment) {
            bool apart = true;
            each_span(segment, [&](auto const& span, std::size_t, std::size_t) GRADSTEP_INLINE_LAMBDA {
                apart = apart && (span.empty() || buffer.bytes == 0 || !buffer.overlaps(extent::of("", span)));
            });
            if (!apart) require_apart(buffer, columns(segment));
        });
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
