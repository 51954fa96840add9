#pragma once
#include <cstring>

#include <gradstep/number/pack.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The loops are written so that compilers make vector instructions of them.
GRADSTEP_DEFINE void encode_int8_row(float const* row, std::size_t width, std::byte* out) {
    constexpr std::size_t lanes = 8;
    float lows[lanes], highs[lanes], low = width == 0 ? 0 : row[0], high = low;
    std::fill_n(lows, lanes, low);
    std::fill_n(highs, lanes, high);
    std::uint32_t all_ones = 0; // of an exponent: NaN or infinity
    std::size_t i = 0;
    for (; i + lanes <= width; i += lanes)
        for (std::size_t k = 0; k < lanes; ++k) {
            lows[k] = row[i + k] < lows[k] ? row[i + k] : lows[k];
            highs[k] = highs[k] < row[i + k] ? row[i + k] : highs[k];
        }
    for (; i < width; ++i) {
        low = std::min(low, row[i]);
        high = std::max(high, row[i]);
    }
    for (std::size_t k = 0; k < lanes; ++k) {
        low = std::min(low, lows[k]);
        high = std::max(high, highs[k]);
    }
    for (std::size_t k = 0; k < width; ++k)
        all_ones |= std::uint32_t{(std::bit_cast<std::uint32_t>(row[k]) & 0x7f800000u) == 0x7f800000u};
    float const range = high - low;
    if (all_ones != 0 || !std::isfinite(range)) {
        float const none[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::quiet_NaN()};
        std::memset(out, 0, width);
        std::memcpy(out + width, none, sizeof none);
        return;
    }
    float const inverse = 255.0f / (range + 1e-8f), ends[] = {range / 255.0f, low};
    for (std::size_t k = 0; k < width; ++k) {
        // The sum is rounded to an integer, which is then in the last bits.
        float const code = math::mul(row[k] - low, inverse) + 0x1.8p23f;
        out[k] = static_cast<std::byte>(std::bit_cast<std::uint32_t>(code));
    }
    std::memcpy(out + width, ends, sizeof ends);
}

GRADSTEP_DEFINE void encode_int8_rows(scalar type, std::byte const* values, std::size_t rows, std::size_t width,
                                      std::byte* out) {
    std::vector<float> row(type == scalar::float32 ? 0 : width);
    with_type(type, [&]<class T>() {
        for (std::size_t r = 0; r < rows; ++r) {
            auto const* const from = reinterpret_cast<T const*>(values) + r * width;
            if constexpr (std::is_same_v<T, float>) encode_int8_row(from, width, out + r * int8_row_bytes(width));
            else {
                for (std::size_t i = 0; i < width; ++i) row[i] = static_cast<float>(from[i]);
                encode_int8_row(row.data(), width, out + r * int8_row_bytes(width));
            }
        }
    });
}

GRADSTEP_DEFINE void decode_int8_rows(std::byte const* rows, std::size_t count, std::size_t width, scalar type,
                                      std::byte* out) {
    with_type(type, [&]<class T>() {
        for (std::size_t r = 0; r < count; ++r) {
            std::byte const* const from = rows + r * int8_row_bytes(width);
            float scale, low;
            std::memcpy(&scale, from + width, sizeof scale);
            std::memcpy(&low, from + width + sizeof scale, sizeof low);
            auto* const to = reinterpret_cast<T*>(out) + r * width;
            for (std::size_t i = 0; i < width; ++i)
                to[i] = static_cast<T>(math::mul(static_cast<float>(std::to_integer<int>(from[i])), scale) + low);
        }
    });
}

GRADSTEP_DEFINE void check_int8_room(scalar type, std::size_t rows, std::size_t width, std::span<std::byte const> out) {
    if (is_integer(type))
        fail<value_error>({"int8_rows"}, {"the values of the table are ", info_of(type).name},
                          {"a table of floating-point values"});
    if (out.size() % int8_row_bytes(width) != 0 || out.size() / int8_row_bytes(width) != rows)
        fail<size_error>({"out"}, {"has ", out.size(), " bytes"}, {rows, " x ", int8_row_bytes(width)});
    if (out.data() == nullptr && !out.empty()) fail<buffer_error>({"out"}, {"is null"}, {"memory"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void decode_int8_row(std::span<std::byte const> row, std::span<float> out) {
    if (row.size() != int8_row_bytes(out.size()))
        detail::fail<size_error>({"row"}, {"has ", row.size(), " bytes"}, {int8_row_bytes(out.size())});
    detail::decode_int8_rows(row.data(), 1, out.size(), scalar::float32, reinterpret_cast<std::byte*>(out.data()));
}
} // namespace gradstep::inline GRADSTEP_ABI
