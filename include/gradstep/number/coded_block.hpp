#pragma once
#include <algorithm>

#include <gradstep/number/pack.hpp>

namespace gradstep {
/// The numbers that the codes of a state slot represent. `both_signs`: for first moments.
/// `one_sign`: for slots that are never negative and are divisors, such as second moments. A rule
/// whose state can be stored in 8 bits names a map for each of its slots, in their order: `static
/// constexpr std::array code_maps{gs::code_map::both_signs, gs::code_map::one_sign};`
enum class code_map { both_signs, one_sign };

/// 256 elements of a state slot in 260 bytes: an 8-bit code for each element, and a common scale
/// (`block8`). Blockwise dynamic quantization: Dettmers, Lewis, Shleifer & Zettlemoyer 2022,
/// arXiv:2110.02861, section 2.1.
///
/// Element k is map(codes[k]) * scale. The magnitudes of a map are in seven decades. Decade i, from
/// 0 to 6, ends at 10^(i - 6). It is divided into N equal parts, N = 2^i for both signs and
/// 2^(i + 1) for one sign. Each part is represented by its middle:
///
///     10^(i - 6) * (0.1 + 0.9 * (k + 1/2) / N),        k from 0 to N - 1
///
/// The map also contains 0 and 1, both exactly; the other numbers are truncated to 16 binary
/// digits. Codes are in ascending order of their numbers. With both signs 127 is 0, 255 is 1 and 0
/// is the least number; with one sign 0 is 0 and 255 is 1.
///
/// Rules compute with floats. The code of a result is the code of the nearest number, to within a
/// hundredth of a part:
///
/// - With both signs, numbers below 2.75e-7 of the scale become 0.
/// - With one sign, where the slot is a divisor, only 0 and numbers below 2^-125 (in blocks with a
///   scale of at least 2^-94) get the code of 0. All other small numbers get the code of the least
///   number.
/// - 1 is the code of the scale, and of numbers within 1e-6 of it.
/// - NaN gets the code of 0, and infinity the code of the largest magnitude of its block. So the
///   weight of a non-finite gradient stays non-finite, and its neighbours are not affected.
/// - A finite but very large gradient spoils its block: numbers below 1e-7 of it become 0. If only
///   its square is infinite, its own weight grows without bound. gs::model's clip_norm limits it.
/// - A block of zeros and subnormals only becomes a block of zeros. In a block with a scale below
///   1e-31, small elements are read as 0, like subnormal products.
struct coded_block {
    /// Elements of a block.
    static constexpr std::size_t length = 256;

    /// The element of largest magnitude, with its sign; of two equal magnitudes, the positive one.
    /// (The paper stores the magnitude. A negative largest element would then shrink in every step,
    /// as -1 has no code.)
    float scale;
    /// The codes of the elements. Beyond the last element of a tensor, the codes of zero.
    std::uint8_t codes[length];

    /// The number of blocks for n elements. The last block can have fewer elements; its other codes
    /// are zeros.
    GRADSTEP_HD static constexpr std::size_t count(std::size_t n) { return n / length + (n % length != 0); }
};
static_assert(sizeof(coded_block) == 260);
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ISA {
inline constexpr std::size_t decades = 7;
inline constexpr double decade_ends[decades] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0};

// The parts of a map. Let h be the code of a magnitude, minus 127 with both signs, plus 1 with one
// sign. Then decade i contains h from N to 2 N - 1, so the exponent of h identifies its decade,
// where
//
//     magnitude = 10^(i - 6) * (0.9 h + 0.45 - 0.8 N) / N        h = floor(N * (magnitude * 10^(6 - i) / 0.9 + 8/9))
template <code_map map> struct parts_of {
    static constexpr bool has_sign = map == code_map::both_signs;
    static constexpr int zero_code = has_sign ? 127 : 0;
    static constexpr int offset = has_sign ? 0 : 1;   // h is the magnitude's code + offset
    static constexpr int most = has_sign ? 128 : 256; // h of 1

    static constexpr double number(std::size_t i) { return (has_sign ? 1.0 : 2.0) * static_cast<double>(1u << i); }
    static constexpr double magnitude(std::size_t i, double k) {
        return decade_ends[i] * (0.1 + 0.9 * (k + 0.5) / number(i));
    }
};

// The numbers of the codes. Vector instructions look them up byte by byte, so there is a table for
// each byte; the lowest byte is 0 for all. Other instructions compute gain * h + shift, by the
// exponent of h.
template <code_map map> struct code_numbers {
    using parts = parts_of<map>;
    static constexpr std::size_t bytes = 3;

    float of[256]{};
    alignas(64) std::uint8_t byte[bytes][256]{}; // from the second byte on
    // For eight exponents, twice: a register of 16 floats is indexed by four bits, one of 8 floats
    // by three.
    alignas(64) float gain[16]{}, shift[16]{};

    static constexpr float cut(double x) {
        return __builtin_bit_cast(float,
                                  __builtin_bit_cast(std::uint32_t, static_cast<float>(x)) & ~std::uint32_t{0xff});
    }
    constexpr void line(std::size_t exponent, double a, double b) {
        for (std::size_t k = exponent % 8; k < 16; k += 8)
            gain[k] = static_cast<float>(a), shift[k] = static_cast<float>(b);
    }
    constexpr code_numbers() {
        // The exponent of the number of parts of decade 0.
        constexpr std::size_t first = parts::has_sign ? 127 : 128;
        for (std::size_t i = 0; i < decades; ++i) {
            double const step = parts::magnitude(i, 1) - parts::magnitude(i, 0);
            line(first + i, step, parts::magnitude(i, 0) - step * parts::number(i));
        }
        line(first + decades, 1.0 / parts::most, 0);
        if constexpr (parts::has_sign) line(first, parts::magnitude(0, 0), 0); // one part, and 0 below it
        for (int h = parts::has_sign ? 0 : 2; h <= parts::most; ++h) {
            std::size_t exponent = 0;
            for (int rest = h; rest > 1; rest /= 2) ++exponent;
            std::size_t const k = (127 + exponent) % 8;
            // The same as a multiply-add in float: product and sum are exact in double.
            float const x = cut(static_cast<double>(gain[k]) * h + static_cast<double>(shift[k]));
            of[parts::zero_code + h - parts::offset] = x;
            if (parts::has_sign && h > 0 && h < parts::most) of[parts::zero_code - h] = -x;
        }
        for (std::size_t c = 0; c < 256; ++c)
            for (std::size_t b = 0; b < bytes; ++b)
                byte[b][c] = static_cast<std::uint8_t>(__builtin_bit_cast(std::uint32_t, of[c]) >> (8 * b + 8));
    }
};
template <code_map map> inline constexpr code_numbers<map> numbers_of{};

// Finds the part of a magnitude whose share of the scale is a float, with e the lowest five bits of
// the exponent and f the first 16 bits of the fraction. With h in units of 2^-8, minus the offset
// of codes, the line of a decade is straight in f for each e,
//
//     h = start + slope * f / 2^16
//
// and from h = bend on, where a decade ends, it continues with a fifth of the slope: twice as many
// parts over ten times the length. Numbers beyond the bend by less than one of the smaller parts
// are nearer to the middle of the last of these parts, and get its code.
template <code_map map> struct code_lines {
    using parts = parts_of<map>;
    static constexpr std::uint32_t unit = 256;
    static constexpr std::uint16_t four_fifths = 52429; // * 2^-16

    alignas(64) std::uint16_t slope[32]{}, start[32]{}, bend[32]{};

    static constexpr std::uint16_t in_units(double h) { return static_cast<std::uint16_t>(h * unit + 0.5); }
    constexpr code_lines() {
        // Decade 0. With both signs it has one number, which begins where it is nearer than 0. It
        // is nearer than the next decade's numbers up to the end of the binade, 2^-19. With one
        // sign, its least number covers everything below the second one.
        double const begin = parts::has_sign ? parts::magnitude(0, 0) / 2 : parts::magnitude(0, 0.5);
        double const end_of_first = 2 * parts::number(0), first_slope = 1 / (decade_ends[0] - begin);
        double binade = 0x1p-30; // the share of e = 1; 0 is in e = 0
        for (std::size_t e = 1; e < 31; ++e, binade *= 2) {
            std::size_t i = 0;
            while (i + 1 < decades && binade > decade_ends[i]) ++i;
            double const n = parts::number(i), steep = i == 0 ? first_slope : n / decade_ends[i] / 0.9;
            double const h = (i == 0 ? end_of_first - steep * decade_ends[0] : n * 8 / 9) + steep * binade;
            bool const ends = i + 1 < decades && 2 * binade > decade_ends[i];
            bool const is_least = parts::has_sign ? i == 0 && ends : h < 2;
            slope[e] = is_least ? std::uint16_t{0} : in_units(steep * binade);
            start[e] = is_least ? in_units(1) : in_units(h - parts::offset);
            bend[e] = ends && !is_least ? in_units(2 * n - parts::offset) : std::uint16_t{0xffff};
        }
        // 1 is in no part.
        start[30] = static_cast<std::uint16_t>(in_units(parts::most - parts::offset) - slope[30]);
        start[31] = in_units(parts::most - parts::offset);
        bend[31] = bend[0] = 0xffff;
    }
};
template <code_map map> inline constexpr code_lines<map> lines_of{};

// Each element is multiplied by this number / scale. Its exponent then has 0 in its lowest five
// bits if the share is 0, and 31 if the share is 1. The scale's own share can be rounded down, but
// not below 1.
inline constexpr float whole_share = 0x1.00001p32f;
// For blocks with a smaller scale this would be infinite: they are multiplied by 2^60 before
// encoding.
inline constexpr float smallest_scale = 0x1p-94f;
// After this multiplication, the share of e = 1 is 4; smaller shares are 0. With one sign, it is
// added to the shares of all elements from 2^-125 on, so that none of them has a smaller share;
// shares of subnormal elements, if they are kept, can be smaller. It is the product of these two
// numbers, and less for smaller elements: a product of larger numbers would overflow, which
// programs may trap.
inline constexpr float smallest_element = 0x1p-125f, to_least_share = 0x1p127f;

// The reference implementation, element by element. All other implementations must be equal to it.
// Each call handles this many codes.
inline constexpr std::size_t codes_at_once = 64;

// The bits of the largest number of a block, at least 0, and the largest bits of all elements: the
// bits of the least number if one is negative.
struct extreme_bits {
    std::int32_t of_largest;
    std::uint32_t of_all;
};

struct scalar_codes {
    template <code_map> static extreme_bits extremes_of(float const* x) {
        extreme_bits out{0, 0};
        for (std::size_t i = 0; i < coded_block::length; ++i) {
            auto const bits = __builtin_bit_cast(std::uint32_t, x[i]);
            if (static_cast<std::int32_t>(bits) > out.of_largest) out.of_largest = static_cast<std::int32_t>(bits);
            if (bits > out.of_all) out.of_all = bits;
        }
        return out;
    }
    template <code_map map> static void decode(std::uint8_t const* codes, float scale, float* to) {
        for (std::size_t k = 0; k < codes_at_once; ++k) to[k] = math::mul(numbers_of<map>.of[codes[k]], scale);
    }
    // `inverse` is 1 / scale, times whole_share.
    template <code_map map> static void encode(float const* x, float inverse, std::uint8_t* codes) {
        using parts = parts_of<map>;
        constexpr auto& lines = lines_of<map>;
        for (std::size_t k = 0; k < codes_at_once; ++k) {
            float const share = share_of<map>(x[k], inverse);
            auto const bits = __builtin_bit_cast(std::uint32_t, math::abs(share));
            std::uint32_t const exponent = bits >> 23, f = bits >> 7 & 0xffff;
            std::uint32_t const e = exponent < 128 ? 0 : exponent & 31;
            std::uint32_t const steep = (f * lines.slope[e] >> 16) + lines.start[e],
                                above = steep > lines.bend[e] ? steep - lines.bend[e] : 0,
                                behind = steep / lines.unit * lines.unit == lines.bend[e] ? lines.unit : 0;
            auto const part = static_cast<int>((steep - (above * lines.four_fifths >> 16) - behind) / lines.unit);
            if (parts::has_sign && share < 0) codes[k] = static_cast<std::uint8_t>(part == 128 ? 0 : 127 - part);
            else codes[k] = static_cast<std::uint8_t>(parts::zero_code + part);
        }
    }

private:
    template <code_map map> static float share_of(float y, float inverse) {
        if constexpr (parts_of<map>::has_sign) return math::mul(y, inverse);
        else return math::fma(y, inverse, math::mul(math::min(y, smallest_element), to_least_share));
    }
};

// Makes all elements finite: infinity becomes the largest magnitude of the others, with its sign;
// NaN becomes 0.
[[gnu::noinline, gnu::cold]] inline void make_finite(float* x) {
    float most = 0;
    for (std::size_t i = 0; i < coded_block::length; ++i)
        if (math::abs(x[i]) <= largest_number<float>) most = math::max(most, math::abs(x[i]));
    for (std::size_t i = 0; i < coded_block::length; ++i) {
        if (x[i] != x[i]) x[i] = 0;
        else if (math::abs(x[i]) > largest_number<float>) x[i] = math::copysign(most, x[i]);
    }
}

// The scale of a block with these extremes. 0 if all numbers are smaller than every normal float:
// the block is then all zeros. Non-finite elements are made finite. With one sign, a zero can have
// the other sign: `of_all` then does not belong to the largest element.
template <code_map map> GRADSTEP_INLINE float scale_of(float* x, extreme_bits found) {
    constexpr std::uint32_t infinity = 0xffu << 23, sign = 1u << 31;
    constexpr std::uint32_t too_large = parts_of<map>::has_sign ? sign | infinity : infinity;
    if (found.of_largest >= static_cast<std::int32_t>(infinity) || found.of_all >= too_large) [[unlikely]] {
        make_finite(x);
        found = scalar_codes::extremes_of<map>(x);
    }
    float const largest = __builtin_bit_cast(float, found.of_largest), other = __builtin_bit_cast(float, found.of_all);
    float const scale = parts_of<map>::has_sign && math::abs(other) > largest ? other : largest;
    return math::abs(scale) < std::numeric_limits<float>::min() ? 0 : scale;
}

// The factor for encoding the elements of a block. If it would be infinite, the elements are scaled
// up.
GRADSTEP_INLINE float inverse_of(float* x, float scale) {
    if (math::abs(scale) >= smallest_scale) [[likely]]
        return math::div(whole_share, scale);
    float const factor = scale == 0 ? 0 : 0x1p60f;
    for (std::size_t k = 0; k < coded_block::length; ++k) x[k] *= factor;
    // Compilers may compute an unused quotient, and programs may trap a division by 0.
    return math::div(whole_share, scale == 0 ? 1.0f : scale * factor);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// For inspection and tests: element k, below `coded_block::length`, of a block of a slot with this
/// map. For a `parameter`: `gs::element_of(gs::code_map::one_sign, w.state<"v">()[i / 256], i %
/// 256)`.
inline float element_of(code_map map, coded_block const& block, std::size_t k) {
    constexpr code_map signs = code_map::both_signs, one = code_map::one_sign;
    std::uint8_t const code = block.codes[k];
    return math::mul(map == signs ? detail::numbers_of<signs>.of[code] : detail::numbers_of<one>.of[code], block.scale);
}
} // namespace gradstep::inline GRADSTEP_ISA
