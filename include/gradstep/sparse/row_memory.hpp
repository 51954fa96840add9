#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <gradstep/sparse/row_kernels.hpp>
#include <gradstep/updater.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// The memory of a table's rows, as spans over the caller's: values, the state slots (those of which a row has one are
/// num_rows long), and stamps and touches where the row_updater needs them. Made by `row_updater::memory`.
template <class Updater> struct row_memory {
    std::span<typename Updater::traits::storage> values;
    std::array<std::span<typename Updater::traits::state>, Updater::slots> state;
    std::span<std::uint32_t> stamps;
    std::span<std::uint32_t> touches;
};

namespace detail {

// int64_t and friends under another name of the same size.
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

// What the memory of the caller's has to be to hold the rows of a table, and what is given and read beside it.
template <class Updater, bool HasStamps> struct row_shape {
    using rule_type = typename Updater::rule_type;
    using traits = typename Updater::traits;
    using storage = typename traits::storage;
    using memory_space = typename Updater::backend_type::memory_space;
    using memory_type = row_memory<Updater>;

    std::size_t width;
    std::uint64_t num_rows;
    bool has_touches;

    // `num_rows` as a number of rows of this width.
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
        out.values = as_span<storage, memory_space>(values);
        place<0>(out, buffers...);
        check(out);
        auto const extents = extents_of(out);
        for (std::size_t i = 0; i < extents.size(); ++i) require_apart(extents[i], std::span(extents).first(i));
        return out;
    }
    void check(memory_type const& rows) const {
        auto const require = [&](char const* name, auto span, std::uint64_t size) {
            if (span.size() != size)
                fail<size_error>(std::string(name) + " has " + text(span.size()) + " elements: must be " + text(size));
            if (size != 0 && span.data() == nullptr)
                fail<buffer_error>(std::string(name) + " is null: give " + text(size) + " elements of memory");
        };
        std::uint64_t const elements = num_rows * width;
        require("values", rows.values, elements);
        for (std::size_t i = 0; i < Updater::slots; ++i)
            require(Updater::state_names[i], rows.state[i], Updater::is_row_slot(i) ? num_rows : elements);
        require("stamps", rows.stamps, HasStamps ? num_rows : 0);
        require("touches", rows.touches, has_touches ? num_rows : 0);
    }

    // Where the rows lie, for kernels.
    rows_at<Updater> at(memory_type const& rows) const {
        rows_at<Updater> out;
        out.width = width;
        out.weight = rows.values.data();
        host_each<slot_count<rule_type>>([&](auto i) { slot<i, rule_type>(out.state) = rows.state[i].data(); });
        constexpr std::size_t row_slots = row_slot_count<rule_type>;
        host_each<row_slots>(
            [&](auto i) { nth<i, row_slots>(out.row) = rows.state[slot_count<rule_type> + i].data(); });
        out.master = nullptr;
        if constexpr (traits::has_master) out.master = rows.state[Updater::slots - 1].data();
        out.stamps = HasStamps ? rows.stamps.data() : nullptr;
        out.touches = has_touches ? rows.touches.data() : nullptr;
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
        // To the compiler int64_t and long long are two types, whose memory does not overlap: what was stored as one is
        // loaded as the other only after this.
        if constexpr (!std::is_same_v<plain, given>) asm volatile("" ::: "memory");
#endif
        return std::span(reinterpret_cast<plain const*>(span.data()), span.size());
    }

    // `count` rows of gradients, apart from the table's.
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
        require_apart({"gradient", given.data(), given.size(), given.size_bytes()}, extents_of(rows));
        return given;
    }
    template <class Backend, class Gradients>
    static void zero(Backend const& on, Gradients& given_rows, step_options const& options) {
        if constexpr (!std::is_const_v<element_type<Gradients>>)
            if (options.zero_gradient) fill(on, as_span<storage, memory_space>(given_rows), storage(0));
    }
    // Room for copies of `count` rows, apart from the table's.
    template <class Out> std::span<storage> room(memory_type const& rows, std::size_t count, Out& out) const {
        auto const to = as_span<storage, memory_space>(out);
        if (to.size() / width != count || to.size() % width != 0)
            fail<size_error>("out has " + text(to.size()) + " elements: must be " + text(count) + " ids x width " +
                             text(width));
        if (to.data() == nullptr && !to.empty())
            fail<buffer_error>("out is null: give " + text(to.size()) + " elements of memory");
        require_apart({"out", to.data(), to.size(), to.size_bytes()}, extents_of(rows));
        return to;
    }

private:
    template <std::size_t I> void place(memory_type&) const {}
    template <std::size_t I, class First, class... Rest>
    void place(memory_type& out, First& first, Rest&... rest) const {
        if constexpr (I < Updater::slots) out.state[I] = as_span<typename traits::state, memory_space>(first);
        else if constexpr (I == Updater::slots && HasStamps) out.stamps = as_span<std::uint32_t, memory_space>(first);
        else out.touches = as_span<std::uint32_t, memory_space>(first);
        place<I + 1>(out, rest...);
    }
    static auto extents_of(memory_type const& rows) {
        std::array<extent, Updater::slots + 3> out;
        auto const of = [](char const* name, auto span) {
            return extent{name, span.data(), span.size(), span.size_bytes()};
        };
        for (std::size_t i = 0; i < Updater::slots; ++i) out[i] = of(Updater::state_names[i], rows.state[i]);
        out[Updater::slots] = of("values", rows.values);
        out[Updater::slots + 1] = of("stamps", rows.stamps);
        out[Updater::slots + 2] = of("touches", rows.touches);
        return out;
    }
    static void require_apart(extent const& buffer, std::span<extent const> others) {
        for (extent const& other : others)
            if (buffer.bytes != 0 && other.bytes != 0 && buffer.overlaps(other))
                fail<buffer_error>(std::string(buffer.name) + " overlaps " + other.name +
                                   ": every buffer needs memory of its own");
    }
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
