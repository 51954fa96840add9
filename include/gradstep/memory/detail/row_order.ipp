#pragma once
#include <cstring>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE row_lengths row_lengths_of(char const* call, shape const& of, std::size_t n) {
    if (!of.is_known()) return {n, 1};
    if (of.order == memory_order::column_major)
        fail<value_error>({call}, {"the shape is column-major, so the elements of a row are apart"},
                          {"a row-major shape"});
    return {of.rows, of.cols};
}

GRADSTEP_DEFINE void refuse_rows_of_host(char const* call) {
    fail<value_error>({call}, {"its values and state are in memory of the application"},
                      {"a parameter that the model owns"});
}

GRADSTEP_DEFINE bool row_order::has_new_state() const {
    for (std::size_t const row : state)
        if (row == new_row) return true;
    return false;
}

GRADSTEP_DEFINE bool row_order::moves_values() const {
    if (after() != before) return true;
    for (std::size_t i = 0; i != values.size(); ++i)
        if (values[i] != i) return true;
    return false;
}

GRADSTEP_DEFINE std::size_t appended_count(row_lengths now, std::size_t elements) {
    if (now.width == 0 && elements != 0)
        fail<size_error>({"append"}, {elements, " values"}, {"none, because a row has no elements"});
    if (now.width != 0 && elements % now.width != 0)
        fail<size_error>({"append"}, {elements, " values"}, {"a multiple of ", now.width, ", the width of a row"});
    return now.width == 0 ? 0 : elements / now.width;
}

GRADSTEP_DEFINE row_order appended_rows(row_lengths now, std::size_t elements) {
    std::size_t const count = appended_count(now, elements);
    row_order out{now.rows};
    for (std::size_t i = 0; i != now.rows + count; ++i) {
        out.values.push_back(i);
        out.state.push_back(i < now.rows ? i : row_order::new_row);
    }
    return out;
}

GRADSTEP_DEFINE row_order kept_rows(std::size_t rows, std::span<unsigned char const> mask) {
    if (mask.size() != rows) fail<size_error>({"keep"}, {"the mask has ", mask.size(), " elements"}, {rows});
    row_order out{rows};
    for (std::size_t i = 0; i != rows; ++i)
        if (mask[i] != 0) out.values.push_back(i);
    out.state = out.values;
    return out;
}

// Throws value_error for the row that is number i of a list.
GRADSTEP_DEFINE std::size_t row_in_range(char const* call, std::size_t i, std::int64_t row, std::size_t rows) {
    if (row < 0 || static_cast<std::uint64_t>(row) >= rows)
        fail<value_error>({call}, {"element ", i, " is ", row}, {"a row in [0, ", rows, ")"});
    return static_cast<std::size_t>(row);
}

GRADSTEP_DEFINE row_order permuted_rows(std::size_t rows, std::span<std::int64_t const> order) {
    if (order.size() != rows) fail<size_error>({"permute"}, {"the order has ", order.size(), " elements"}, {rows});
    std::vector<bool> seen(rows);
    row_order out{rows};
    for (std::size_t i = 0; i != rows; ++i) {
        std::size_t const row = row_in_range("permute", i, order[i], rows);
        if (seen[row]) fail<value_error>({"permute"}, {"row ", row, " is in the order twice"}, {"each row once"});
        seen[row] = true;
        out.values.push_back(row);
    }
    out.state = out.values;
    return out;
}

GRADSTEP_DEFINE row_order reset_rows(std::size_t rows, std::span<std::int64_t const> ids) {
    row_order out{rows};
    for (std::size_t i = 0; i != rows; ++i) out.values.push_back(i);
    out.state = out.values;
    for (std::size_t i = 0; i != ids.size(); ++i)
        out.state[row_in_range("reset", i, ids[i], rows)] = row_order::new_row;
    return out;
}

GRADSTEP_DEFINE void move_rows(std::span<std::size_t const> sources, std::size_t before, std::size_t row_bytes,
                               std::byte const* from, std::byte const* added, std::byte* to) {
    if (row_bytes == 0) return;
    for (std::size_t i = 0; i != sources.size();) {
        std::size_t const row = sources[i], first = i++;
        if (row == row_order::new_row) continue;
        bool const is_added = row >= before;
        // Rows that stay together are one copy.
        while (i != sources.size() && sources[i] == row + (i - first) && (is_added || sources[i] < before)) ++i;
        std::byte const* const source = is_added ? added + (row - before) * row_bytes : from + row * row_bytes;
        std::memcpy(to + first * row_bytes, source, (i - first) * row_bytes);
    }
}

GRADSTEP_DEFINE std::vector<std::size_t> swaps_of(row_order order) noexcept {
    std::vector<std::size_t> out = std::move(order.values);
    // A row that was before i is where the swaps so far have put it. Each swap moves one row back,
    // and that row is looked for once, so that all searches together take O(rows).
    for (std::size_t i = 0; i != out.size(); ++i)
        while (out[i] < i) out[i] = out[out[i]];
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
