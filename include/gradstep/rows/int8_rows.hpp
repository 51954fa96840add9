#pragma once
#include <vector>

#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/number/scalar.hpp>

namespace gradstep {
/// Rows in 8 bits, for servers that only read: a quarter of the bytes of float. A row of n values
/// has n + 8 bytes: n codes, then `scale` and `offset` in float.
///
///     offset = min(row),  range = max(row) - offset,  scale = range / 255
///     code = round((value - offset) * (255 / (range + 1e-8)))     to the nearest, ties to even
///     value = code * scale + offset                               when you read it
///
/// A value then differs by at most scale / 2 + 1e-8 and the roundings of float. If a value, or
/// range, is not finite in float, `scale` and `offset` are NaN, and so is each value. These are the
/// bytes of FBGEMM's FloatToFused8BitRowwiseQuantized and of
/// torch.ops.quantized.embedding_bag_byte_prepack, which do not define the codes of NaN.
///
/// The number of bytes of a row of `width` values.
constexpr std::size_t int8_row_bytes(std::size_t width) { return width + 2 * sizeof(float); }
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
// Rows of floating-point values of a type, one behind the other.
void encode_int8_rows(scalar type, std::byte const* values, std::size_t rows, std::size_t width, std::byte* out);
void decode_int8_rows(std::byte const* rows, std::size_t count, std::size_t width, scalar type, std::byte* out);

// Throws value_error or size_error for `out` of a call.
void check_int8_room(scalar type, std::size_t rows, std::size_t width, std::span<std::byte const> out);
// Writes `count` rows, of which read(to) writes the values of `type`.
template <class Read>
void read_int8_rows(scalar type, std::size_t count, std::size_t width, std::span<std::byte> out, Read const& read) {
    check_int8_room(type, count, width, out);
    std::vector<std::byte> values(count * width * size_of(type));
    read(values.data());
    encode_int8_rows(type, values.data(), count, width, out.data());
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Writes the rows of ids or keys of any table with all steps applied, in their order, in 8 bits:
/// exactly ids.size() x `int8_row_bytes(table.width())` bytes. It allocates memory for a copy of
/// the rows. Throws size_error for `out`, value_error for a table of integers, and the errors of
/// `rows`. Nothing is written then.
template <class Table, class Ids> void int8_rows(Table const& table, Ids const& ids, std::span<std::byte> out) {
    std::size_t const count = std::size(ids), width = table.width();
    auto const read_as = [&]<class T>() {
        detail::read_int8_rows(scalar_of<T>(), count, width, out, [&](std::byte* to) {
            table.rows(ids, std::span<T>(reinterpret_cast<T*>(to), count * width));
        });
    };
    if constexpr (requires { table.optimizer().storage(); }) detail::with_type(table.optimizer().storage(), read_as);
    else read_as.template operator()<typename Table::storage>();
}
/// Writes the values of a row of `int8_rows` to out.size() floats. Throws size_error if the row has
/// another number of bytes.
void decode_int8_row(std::span<std::byte const> row, std::span<float> out);
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/int8_rows.ipp>
#endif
