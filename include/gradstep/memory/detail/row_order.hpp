#pragma once
#include <vector>

#include <gradstep/number/coded_block.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The rows of a parameter, and the elements of a row.
struct row_lengths {
    std::size_t rows = 0, width = 1;
};
// The same for n elements with this shape. Without a shape, a row is one element. Throws
// value_error for a column-major shape, whose rows are apart in memory.
row_lengths row_lengths_of(char const* call, shape const& of, std::size_t n);
// A parameter of a model in memory of the application.
[[noreturn, gnu::cold]] void refuse_rows_of_host(char const* call);
// The shape with another number of rows.
GRADSTEP_INLINE shape with_rows(shape of, std::size_t rows) {
    if (of.is_known()) of.rows = rows;
    return of;
}

// Which row each row of a parameter was before a change. All changes are made of this: rows are
// added, removed, put in another order, or begin anew.
struct row_order {
    // A row whose state begins as `initialize` begins it.
    static constexpr std::size_t new_row = SIZE_MAX;

    std::size_t before = 0; // the number of rows
    // For each row after the change: where its values and its state come from. Values from `before`
    // on belong to the rows that the caller adds.
    std::vector<std::size_t> values = {}, state = {};

    std::size_t after() const { return values.size(); }
    bool has_new_state() const;
    bool moves_values() const; // false: values stay where they are
};
// The changes of a parameter with these rows, for the function `call` in errors. Throw value_error
// or size_error.
row_order appended_rows(row_lengths now, std::size_t elements);
std::size_t appended_count(row_lengths now, std::size_t elements); // only the number of rows
row_order kept_rows(std::size_t rows, std::span<unsigned char const> mask);
row_order permuted_rows(std::size_t rows, std::span<std::int64_t const> order);
row_order reset_rows(std::size_t rows, std::span<std::int64_t const> ids);

// Copies the bytes of rows to their new positions. Rows from `before` on are read from `added`, new
// rows are not written.
void move_rows(std::span<std::size_t const> sources, std::size_t before, std::size_t row_bytes, std::byte const* from,
               std::byte const* added, std::byte* to);

// The values of an order as swaps, for rows that move in place: swap row i with row out[i], for
// each i in ascending order. out[i] is at least i. Removed rows are then behind the others.
std::vector<std::size_t> swaps_of(row_order order) noexcept;

// The numbers of a mask, or of a list of rows, whatever container has them.
template <class Mask> std::vector<unsigned char> mask_of(Mask const& mask) {
    std::vector<unsigned char> out;
    for (auto const& is_set : mask) out.push_back(is_set ? 1 : 0);
    return out;
}
template <class Ids> std::vector<std::int64_t> row_numbers(Ids const& ids) {
    std::vector<std::int64_t> out;
    for (auto const id : ids) {
        using number = std::remove_const_t<decltype(id)>;
        static_assert(std::is_integral_v<number> && !std::is_same_v<number, bool>, "numbers of rows are integers");
        out.push_back(std::in_range<std::int64_t>(id) ? static_cast<std::int64_t>(id) : INT64_MAX);
    }
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ISA {
// The same for state in blocks, which begins with `initial` in new rows. Blocks cross rows: each
// element is decoded, and encoded with the scale of its new block.
template <code_map map>
void move_blocks(std::span<std::size_t const> sources, std::size_t width, float initial,
                 std::span<coded_block const> from, std::span<coded_block> to) {
    std::size_t const n = sources.size() * width;
    for (std::size_t b = 0; b != to.size(); ++b) {
        float x[coded_block::length] = {};
        for (std::size_t k = 0; k != coded_block::length && b * coded_block::length + k < n; ++k) {
            std::size_t const i = b * coded_block::length + k, row = sources[i / width];
            std::size_t const source = row * width + i % width;
            x[k] = row == row_order::new_row
                       ? initial
                       : element_of(map, from[source / coded_block::length], source % coded_block::length);
        }
        to[b].scale = scale_of<map>(x, scalar_codes::extremes_of<map>(x));
        float const inverse = inverse_of(x, to[b].scale);
        for (std::size_t k = 0; k != coded_block::length; k += codes_at_once)
            scalar_codes::encode<map>(x + k, inverse, to[b].codes + k);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY
#include <gradstep/memory/detail/row_order.ipp>
#endif
