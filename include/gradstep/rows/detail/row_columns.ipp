#pragma once
#include <algorithm>
#include <cstring>
#include <limits>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE extent row_column::memory() const {
    return {name, data, size,
            size > extent::most_bytes / element_bytes ? extent::most_bytes + 1 : size * element_bytes};
}

GRADSTEP_DEFINE void describe_columns(kept_columns const& kept, row_column* to) {
    *to++ = row_column::of<std::uint32_t>("stamps", kept.stamps, true);
    *to++ = row_column::of<std::uint32_t>("touches", kept.touches, true);
    *to++ = row_column::of<std::uint64_t>("keys", kept.keys, true);
    *to++ = row_column::of<std::uint32_t>("last_touches", kept.last_touches, true);
    *to++ = row_column::of<std::uint32_t>("touch_counts", kept.touch_counts, true);
}

GRADSTEP_DEFINE void check_columns(row_columns all, std::uint64_t num_rows) {
    for (row_column const& x : all) {
        if (!x.exists()) {
            if (x.size != 0) fail<size_error>({x.name}, {"has ", x.size, " elements"}, {"0"});
            continue;
        }
        bool const dense = x.stride == x.row_elements;
        constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
        if (num_rows > 1 && num_rows - 1 > (most - x.row_elements) / x.stride)
            fail<size_error>({x.name}, {"has ", x.size, " elements"},
                             {num_rows - 1, " x ", x.stride, " + ", x.row_elements, " or more"});
        std::uint64_t const least = num_rows == 0 ? 0 : (num_rows - 1) * x.stride + x.row_elements;
        if (dense ? x.size != least : x.size < least)
            fail<size_error>({x.name}, {"has ", x.size, " elements"}, {least, dense ? "" : " or more"});
        if (least != 0 && x.data == nullptr) fail<buffer_error>({x.name}, {"is null"}, {least, " elements of memory"});
    }
}

// The i-th column in the order in which overlaps are reported: state, values, the rest.
inline row_column const& reported_column(row_columns all, std::size_t i) {
    std::size_t const slots = all.size() - 1 - columns_beside_state;
    return all[i < slots ? i + 1 : i == slots ? 0 : i];
}
[[noreturn]] inline void refuse_overlap(char const* buffer, char const* other) {
    fail<buffer_error>({buffer}, {"overlaps ", other}, {"separate memory for each buffer"});
}

GRADSTEP_DEFINE void require_apart(extent const& buffer, row_columns all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
        extent const other = reported_column(all, i).memory();
        if (buffer.bytes != 0 && other.bytes != 0 && buffer.overlaps(other)) refuse_overlap(buffer.name, other.name);
    }
}

GRADSTEP_DEFINE void require_apart(row_columns all) {
    // A stride of more bytes than can be counted: there is only one row, so any large stride is
    // equivalent.
    auto const stride_of = [](row_column const& x) {
        return std::min(x.stride, extent::most_bytes / x.element_bytes) * x.element_bytes;
    };
    // Whether no row overlaps a row of the other column, even if the rows are interleaved.
    auto const interleaved = [&](row_column const& x, row_column const& other) {
        std::size_t const stride = stride_of(x);
        if (stride != stride_of(other)) return false;
        auto const a = reinterpret_cast<std::uintptr_t>(x.data), b = reinterpret_cast<std::uintptr_t>(other.data);
        std::size_t const apart = (a > b ? a - b : b - a) % stride;
        return a > b ? apart >= other.row_bytes() && stride - apart >= x.row_bytes()
                     : apart >= x.row_bytes() && stride - apart >= other.row_bytes();
    };
    for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t k = 0; k < i; ++k) {
            row_column const &x = reported_column(all, i), &other = reported_column(all, k);
            extent const mine = x.memory(), others = other.memory();
            if (mine.bytes != 0 && others.bytes != 0 && mine.overlaps(others) && !interleaved(x, other))
                refuse_overlap(x.name, other.name);
        }
}

GRADSTEP_DEFINE void require_stride(char const* name, std::size_t given, std::size_t row_elements, std::size_t shared) {
    if (given < row_elements)
        fail<value_error>({name}, {"rows ", given, " elements apart"}, {"at least ", row_elements});
    if (shared != 0 && given != shared)
        fail<value_error>({name}, {"rows ", given, " elements apart, and those before ", shared},
                          {"one distance for all slots of one width, and for stamps and touches"});
}

GRADSTEP_DEFINE void require_gradient_rows(std::size_t size, void const* data, std::size_t count, char const* what,
                                           std::size_t width) {
    if (size % width != 0 || size / width != count)
        fail<size_error>({"gradient_rows"}, {"has ", size, " elements"}, {count, " ", what, " x width ", width});
    if (data == nullptr && size != 0) fail<buffer_error>({"gradient_rows"}, {"is null"}, {size, " elements of memory"});
}

GRADSTEP_DEFINE void require_room(std::size_t size, void const* data, std::size_t count, char const* what,
                                  std::size_t width) {
    if (size / width != count || size % width != 0)
        fail<size_error>({"out"}, {"has ", size, " elements"}, {count, " ", what, " x width ", width});
    if (data == nullptr && size != 0) fail<buffer_error>({"out"}, {"is null"}, {size, " elements of memory"});
}

GRADSTEP_DEFINE void refuse_row_memory(std::uint64_t rows, std::size_t width, std::size_t element_bytes) {
    double const bytes = static_cast<double>(rows) * static_cast<double>(width) * static_cast<double>(element_bytes);
    fail<memory_error>({"num_rows"}, {"a table of ", rows, " rows of width ", width, " needs ", bytes,
                                      " bytes, which the system does not give"});
}

GRADSTEP_DEFINE void copy_row(row_columns all, std::byte* const* from, std::byte* const* to) {
    for (std::size_t i = 0; i < all.size(); ++i)
        if (from[i] != nullptr && to[i] != nullptr) std::memcpy(to[i], from[i], all[i].row_bytes());
}

GRADSTEP_DEFINE void swap_rows(row_columns all, std::byte* const* a, std::byte* const* b) noexcept {
    std::byte spare[512];
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (a[i] == nullptr) continue;
        for (std::size_t at = 0, bytes = all[i].row_bytes(); at < bytes; at += sizeof spare) {
            std::size_t const count = std::min(sizeof spare, bytes - at);
            std::memcpy(spare, a[i] + at, count);
            std::memcpy(a[i] + at, b[i] + at, count);
            std::memcpy(b[i] + at, spare, count);
        }
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
