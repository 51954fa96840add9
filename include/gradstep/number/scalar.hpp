#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

#include <gradstep/base/compiler.hpp>
#include <gradstep/number/bfloat16.hpp>
#include <gradstep/number/float16.hpp>

namespace gradstep {
/// The type of a number in memory, known at run time. The values are the values of the C interface.
enum class scalar : std::int32_t {
    int32,    ///< std::int32_t
    uint32,   ///< std::uint32_t
    int64,    ///< std::int64_t
    uint64,   ///< std::uint64_t
    float32,  ///< float
    float64,  ///< double
    float16,  ///< gradstep::float16
    bfloat16, ///< gradstep::bfloat16
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
struct scalar_info {
    char const* name;         // in configurations and the C interface
    char const* element;      // in messages, states and errors: element_traits<T>::name
    char const* dtype;        // in safetensors and state blobs
    std::uint8_t bytes, code; // code: in messages between processes; 0: in none
};
// In the order of the enumerators. All names, sizes and codes of scalars come from this table.
inline constexpr std::array scalar_table{
    scalar_info{"int32", "int32", "I32", 4, 5},     scalar_info{"uint32", "uint32", "U32", 4, 0},
    scalar_info{"int64", "int64", "I64", 8, 6},     scalar_info{"uint64", "uint64", "U64", 8, 0},
    scalar_info{"float32", "float", "F32", 4, 1},   scalar_info{"float64", "double", "F64", 8, 2},
    scalar_info{"float16", "float16", "F16", 2, 4}, scalar_info{"bfloat16", "bfloat16", "BF16", 2, 3},
};
constexpr scalar_info const& info_of(scalar type) { return scalar_table[static_cast<std::size_t>(type)]; }

constexpr bool is_integer(scalar type) { return type <= scalar::uint64; }

// The type of a code, if there is one.
constexpr std::optional<scalar> scalar_of_code(std::uint64_t code) {
    for (std::size_t i = 0; i != scalar_table.size(); ++i)
        if (code != 0 && scalar_table[i].code == code) return static_cast<scalar>(i);
    return std::nullopt;
}
// The type of a name in safetensors, if there is one.
constexpr std::optional<scalar> scalar_of_dtype(std::string_view dtype) {
    for (std::size_t i = 0; i != scalar_table.size(); ++i)
        if (scalar_table[i].dtype == dtype) return static_cast<scalar>(i);
    return std::nullopt;
}
// The bytes of a number of this name. 0 for other names.
constexpr std::size_t bytes_of_dtype(std::string_view dtype) {
    auto const type = scalar_of_dtype(dtype);
    return type ? info_of(*type).bytes : 0;
}

template <class T>
concept has_scalar = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, gradstep::float16> ||
    std::is_same_v<T, gradstep::bfloat16> ||(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep {
/// The `scalar` of a C++ type. Other types do not compile.
template <class T> constexpr scalar scalar_of() {
    static_assert(detail::has_scalar<T>, "gradstep: element: the type is not known; expected float, double, float16, "
                                         "bfloat16, or integers of 32 or 64 bits");
    if constexpr (std::is_same_v<T, float>) return scalar::float32;
    else if constexpr (std::is_same_v<T, double>) return scalar::float64;
    else if constexpr (std::is_same_v<T, gradstep::float16>) return scalar::float16;
    else if constexpr (std::is_same_v<T, gradstep::bfloat16>) return scalar::bfloat16;
    else if constexpr (std::is_signed_v<T>) return sizeof(T) == 4 ? scalar::int32 : scalar::int64;
    else return sizeof(T) == 4 ? scalar::uint32 : scalar::uint64;
}

/// The size of one number in bytes.
GRADSTEP_INLINE constexpr std::size_t size_of(scalar type) { return detail::info_of(type).bytes; }
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
// The name of this type in safetensors; empty if it has none. Bytes are the codes of block8.
template <class T> constexpr char const* dtype_of() {
    if constexpr (has_scalar<T>) return info_of(scalar_of<T>()).dtype;
    else return std::is_same_v<T, std::uint8_t> ? "U8" : "";
}

// Calls f.operator()<T>() with the C++ type of a scalar. Unsigned integers use the signed type of
// their size: arithmetic wraps around.
template <class F> decltype(auto) with_type(scalar type, F const& f) {
    switch (type) {
    case scalar::float32:
        return f.template operator()<float>();
    case scalar::float64:
        return f.template operator()<double>();
    case scalar::float16:
        return f.template operator()<gradstep::float16>();
    case scalar::bfloat16:
        return f.template operator()<gradstep::bfloat16>();
    case scalar::int32:
    case scalar::uint32:
        return f.template operator()<std::int32_t>();
    default:
        return f.template operator()<std::int64_t>();
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
