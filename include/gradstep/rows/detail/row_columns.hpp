#pragma once
#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/number/scalar.hpp>

// The columns of a table's rows, whatever the rule and element are. Everything that only moves rows
// or checks their memory is written for these, and compiled once.
namespace gradstep::detail::inline GRADSTEP_ABI {
// One column: what it contains of each row, and where. The columns of a table are the values, the
// state slots (with the master copy), then `columns_beside_state`, in this order.
struct row_column {
    char const *name, *dtype; // in messages; in safetensors
    std::size_t row_elements; // 0: the table has no such column
    std::size_t element_bytes;
    bool is_number = false;    // one number per row, whatever the width is
    std::byte* data = nullptr; // the first row
    std::size_t size = 0;      // of the memory, in elements
    std::size_t stride = 0;    // of rows, in elements

    // A column of T, without memory.
    template <class T> static row_column of(char const* name, std::size_t row_elements, bool is_number = false) {
        return {name, dtype_of<T>(), row_elements, sizeof(T), is_number};
    }
    bool exists() const { return row_elements != 0; }
    std::size_t row_bytes() const { return row_elements * element_bytes; }
    std::byte* row(std::uint64_t r) const {
        return data == nullptr ? nullptr : data + static_cast<std::size_t>(r) * stride * element_bytes;
    }
    extent memory() const;
};
using row_columns = std::span<row_column const>;

// Which columns a table has besides values and state.
struct kept_columns {
    bool stamps = false, touches = false;
    // Only if rows have keys.
    bool keys = false, last_touches = false, touch_counts = false;
};
inline constexpr std::size_t columns_beside_state = 5;
// Writes their descriptions.
void describe_columns(kept_columns const& kept, row_column* to);

// Throws size_error or buffer_error unless each column has memory for so many rows.
void check_columns(row_columns all, std::uint64_t num_rows);
// Throws buffer_error if the buffer overlaps a column.
void require_apart(extent const& buffer, row_columns all);
// Throws buffer_error if columns overlap. Rows of one column can lie between rows of another.
void require_apart(row_columns all);
// Throws value_error for rows that are closer together than their length, or not as far apart as
// rows of other buffers that share the stride (0: there are none).
void require_stride(char const* name, std::size_t given, std::size_t row_elements, std::size_t shared);

// Throws size_error or buffer_error unless a buffer contains `count` rows.
void require_gradient_rows(std::size_t size, void const* data, std::size_t count, char const* what, std::size_t width);
void require_room(std::size_t size, void const* data, std::size_t count, char const* what, std::size_t width);

// Throws memory_error: the system does not give memory for so many rows.
[[noreturn]] void refuse_row_memory(std::uint64_t rows, std::size_t width, std::size_t element_bytes);

// Copies one row: the columns whose pointers are not null in both.
void copy_row(row_columns all, std::byte* const* from, std::byte* const* to);
// Swaps two rows.
void swap_rows(row_columns all, std::byte* const* a, std::byte* const* b) noexcept;
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/detail/row_columns.ipp>
#endif
