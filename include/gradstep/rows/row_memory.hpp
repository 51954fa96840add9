#pragma once
#include <gradstep/rows/detail/row_core.hpp>
#include <gradstep/rows/detail/table_kernels_of.hpp>
#include <gradstep/rows/visible.hpp>

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

namespace gradstep::inline GRADSTEP_ISA {
/// The memory of a table's rows, as spans over the caller's memory. It contains values, the state
/// slots (row slots are num_rows long), and stamps and touches if the row_updater needs them.
/// `row_updater::memory` makes it.
template <class Updater> struct row_memory {
    /// The type of the optimizer.
    using updater_type = Updater;
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
    detail::row_place const* index = nullptr;
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// int64_t and similar types, mapped to one type of each size.
template <class Id>
using plain_id = std::conditional_t<sizeof(Id) == 4, std::int32_t,
                                    std::conditional_t<std::is_signed_v<Id>, std::int64_t, std::uint64_t>>;

// The ids or offsets of a call, in memory of the updater's backend.
template <class Updater, class Ids> given_ids ids_of(Ids& ids) {
    using given = std::remove_const_t<element_type<Ids>>;
    static_assert(row_id<given>,
                  "gradstep: ids and offsets: they are of another type; expected int32, int64 or uint64");
    auto const span = as_span<given const, typename Updater::backend_type::memory_space>(ids);
    if (span.data() == nullptr && !span.empty())
        fail<buffer_error>({"ids"}, {"is null"}, {span.size(), " elements of memory"});
    using plain = plain_id<given>;
#if defined(__GNUC__)
    // For the compiler, int64_t and long long are two types that do not alias: values stored as one
    // type are loaded as the other only after this barrier.
    if constexpr (!std::is_same_v<plain, given>) asm volatile("" ::: "memory");
#endif
    return std::span(reinterpret_cast<plain const*>(span.data()), span.size());
}

// The gradients of a call.
template <class Updater, class Gradients> given_values gradients_of(Gradients& gradients) {
    auto const given =
        as_span<typename Updater::traits::storage const, typename Updater::backend_type::memory_space>(gradients);
    require_layout(gradients, given);
    return {given.data(), given.size(), !std::is_const_v<element_type<Gradients>>};
}

// Copies the rows that ids name to a buffer of T: read(ids, memory), after the checks.
template <class Updater, class T, class Ids, class Out, class Read>
void read_rows(row_core const& of, row_place const& rows, Ids& ids, Out& out, Read const& read) {
    given_ids const which = ids_of<Updater>(ids);
    auto const to = as_span<T, typename Updater::backend_type::memory_space>(out);
    of.check_room(rows, extent::of("out", to), to.size(), which.size());
    read(which, to.data());
}

// Writes pooled rows to a buffer of the values' type.
template <class Updater, class Ids, class Offsets, class Out>
pooled_call pooled_rows_of(row_core const& of, row_place const& rows, Ids& ids, Offsets& offsets, Out& out,
                           bag_options const& how) {
    static_assert(std::is_same_v<typename Updater::backend_type::memory_space, host_memory>,
                  "gradstep: bags: the rows are in memory of a device; expected a backend of the host");
    auto const to = as_span<typename Updater::traits::storage, host_memory>(out);
    pooled_call const call = of.pooled(rows, ids_of<Updater>(ids), of.options.ignore_id, ids_of<Updater>(offsets), how,
                                       extent::of("out", to));
    of.check_ids(call);
    return call;
}

// A step of the rows in `ids`: row_updater::update. Compiled once for each type of arguments.
template <class Updater, class Ids, class Gradients>
void update_rows(row_core& of, row_place const& rows, Ids& ids, Gradients& gradient_rows, step_options const& how) {
    given_ids const which = ids_of<Updater>(ids);
    given_values const given = gradients_of<Updater>(gradient_rows);
    of.check_gradients(rows, given, which.size(), "ids", how);
    of.apply(rows, which, {}, given, how);
    of.zero(given, how);
}
// The same for pooled gradients, and for the rows of a mask.
template <class Updater, class Ids, class Offsets, class Gradients>
void update_bags(row_core& of, row_place const& rows, Ids& ids, Offsets& offsets, Gradients& bag_rows,
                 step_options const& how, bag_options const& bag_how) {
    given_ids const which = ids_of<Updater>(ids), begins = ids_of<Updater>(offsets);
    given_values const given = gradients_of<Updater>(bag_rows);
    std::size_t const bags = given.size / of.width();
    of.check_gradients(rows, given, bags, "bags", how);
    given_bags const its = of.bags_of(rows, begins, bag_how, which.size());
    of.apply(rows, which, of.call().bags(its, which, of.options.ignore_id, bags), given, how);
    of.zero(given, how);
}
template <class Updater, class Gradients>
void update_visible(row_core& of, row_place const& rows, visible const& seen, Gradients& gradient,
                    step_options const& how) {
    static_assert(std::is_same_v<typename Updater::backend_type::memory_space, host_memory>,
                  "gradstep: visible: the rows are in memory of a device; expected a backend of the host");
    seen.require_rows(of.num_rows());
    given_values const given = gradients_of<Updater>(gradient);
    of.check_gradients(rows, given, seen.size(), "rows", how);
    of.apply(rows, std::span<std::int64_t const>(seen.ids()), {seen.sources()}, given, how);
    of.zero(given, how);
}

// Calls f(span, stride) for each column of the rows, in the order of the columns of a table.
template <class Memory, class F> GRADSTEP_INLINE void each_column(Memory& rows, F const& f) {
    using updater = typename std::remove_const_t<Memory>::updater_type;
    row_strides const& s = rows.strides;
    f(rows.values, s.values);
    for (std::size_t i = 0; i < updater::slots; ++i) f(rows.state[i], updater::is_row_slot(i) ? s.row_state : s.state);
    f(rows.stamps, s.stamps);
    f(rows.touches, s.stamps);
    f(rows.keys, std::size_t{0});
    f(rows.last_touches, std::size_t{0});
    f(rows.touch_counts, std::size_t{0});
}

// A row_memory as owners of rows use it. It must stay as long as `place()` is used.
template <class Updater> class bound_rows {
public:
    bound_rows(row_memory<Updater> const& rows, row_core const& of) : width_(of.width()), index_(rows.index) {
        if (index_ != nullptr) return;
        describe_columns_of<Updater>(of.width(), columns_.data());
        describe_columns(of.kept, columns_.data() + 1 + Updater::slots);
        row_column* next = columns_.data();
        each_column(rows, [&](auto const& span, std::size_t stride) {
            if (next->exists()) next->data = reinterpret_cast<std::byte*>(span.data());
            next->size = span.size();
            next->stride = stride == 0 ? next->row_elements : stride;
            ++next;
        });
        span_ = columns_;
    }
    bound_rows(bound_rows const&) = delete;
    bound_rows& operator=(bound_rows const&) = delete;

    row_place place() const { return index_ != nullptr ? *index_ : row_place{width_, {&span_, 1}}; }

private:
    std::size_t width_;
    row_place const* index_;
    std::array<row_column, row_addresses<Updater>::columns> columns_;
    row_columns span_;
};

// The rows of a segment of a table.
template <class Updater> row_memory<Updater> memory_of(row_columns all) {
    row_memory<Updater> out;
    row_column const* next = all.data();
    each_column(out, [&]<class T>(std::span<T>& span, std::size_t) {
        if (next->data != nullptr) span = {reinterpret_cast<T*>(next->data), next->size};
        ++next;
    });
    return out;
}

// The caller's buffers as rows; row_updater::memory.
template <class Updater> class row_binder {
    using traits = typename Updater::traits;

public:
    row_binder(std::size_t width, bool has_stamps) : width_(width), has_stamps_(has_stamps) {}
    template <class Values, class... Buffers>
    row_memory<Updater> operator()(Values& values, Buffers&... buffers) const {
        row_memory<Updater> out;
        out.values = elements_of<typename traits::storage>(values, out.strides.values, "values", width_);
        assign<0>(out, buffers...);
        return out;
    }

private:
    // A buffer of the caller. `stride` is set to the distance of its rows, which all buffers of one
    // kind share.
    template <class T, class Buffer>
    std::span<T> elements_of(Buffer& buffer, std::size_t& stride, char const* name, std::size_t row) const {
        using space = typename Updater::backend_type::memory_space;
        constexpr bool has_gaps = requires {
            buffer.elements;
            buffer.stride;
        };
        std::size_t given = row;
        if constexpr (has_gaps) given = buffer.stride;
        require_stride(name, given, row, stride);
        stride = given;
        if constexpr (has_gaps) return as_span<T, space>(buffer.elements);
        else return as_span<T, space>(buffer);
    }
    template <std::size_t I> void assign(row_memory<Updater>&) const {}
    template <std::size_t I, class First, class... Rest>
    void assign(row_memory<Updater>& out, First& first, Rest&... rest) const {
        if constexpr (I < Updater::slots)
            out.state[I] = elements_of<typename traits::state>(
                first, Updater::is_row_slot(I) ? out.strides.row_state : out.strides.state, Updater::state_names[I],
                Updater::is_row_slot(I) ? 1 : width_);
        else if (I == Updater::slots && has_stamps_)
            out.stamps = elements_of<std::uint32_t>(first, out.strides.stamps, "stamps", 1);
        else out.touches = elements_of<std::uint32_t>(first, out.strides.stamps, "touches", 1);
        assign<I + 1>(out, rest...);
    }

    std::size_t width_;
    bool has_stamps_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
