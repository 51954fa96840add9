#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <gradstep/core/pack.hpp>

namespace gradstep {

/// Which numbers the codes of a state slot stand for: `both_signs`, as of first moments, or `one_sign`, for slots that are never
/// negative and are divided by, as second moments. A rule names one for each of its slots, in their order, if its state may be
/// kept in 8 bits: `static constexpr std::array code_maps{gs::code_map::both_signs, gs::code_map::one_sign};`
enum class code_map { both_signs, one_sign };

/// 256 elements of a state slot in 260 bytes: a code of 8 bits for each, and the number that all of them are multiples of
/// (`block8`). Blockwise dynamic quantization: Dettmers, Lewis, Shleifer & Zettlemoyer 2022, arXiv:2110.02861, section 2.1.
///
/// Element k is map(codes[k]) * scale, but for less than 2e-6 of itself. The magnitudes of a map are in seven decades: decade i, from 0 to 6, has
/// N = 2^i of them for both signs, and 2^(i + 1) for one sign, in the middle of N equal parts of it,
///
///     10^(i - 6) * (0.1 + 0.9 * (k + 1/2) / N),        k from 0 to N - 1
///
/// besides 0 and 1, both of them exact. Codes count from the least number to the largest: 127 is 0, 255 is 1 and 0 the least with
/// both signs; 0 is 0 and 255 is 1 with one sign.
///
/// Rules compute with floats: what they leave in a slot becomes the code of the nearest number, a tie that of the even one. With one
/// sign, where the slot divides, only 0 has the code of 0. NaN has it too, and an infinity the code of the largest magnitude of its
/// block: of a gradient that is not finite its own weight is not finite for good, and its neighbours go on as if it were not there.
/// One that is finite and very large spoils its block: what is less than 1e-7 of it becomes 0, and where its square alone is infinite
/// its own weight runs away; gs::model's clip_norm bounds it. A block of nothing but zeros and subnormals is one of zeros, and below a scale of
/// 1e-31 digits are lost.
struct coded_block {
    /// Elements of a block.
    static constexpr std::size_t length = 256;

    /// The element of largest magnitude, with its sign: of two the positive one. (The paper has the magnitude, under which a largest
    /// one that is negative would shrink in every step, as -1 has no code.)
    float scale;
    /// The codes of the elements; behind the last element of a tensor those of zero.
    std::uint8_t codes[length];

    /// The number of blocks that n elements have: the last may be one of fewer elements, and then has codes of zeros besides.
    static constexpr std::size_t count(std::size_t n) { return n / length + (n % length != 0); }
};
static_assert(sizeof(coded_block) == 260);

inline namespace GRADSTEP_ISA {
namespace detail {

inline constexpr std::size_t decades = 7;
inline constexpr double decade_ends[decades] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0};

// Eight numbers, twice: a register of 16 floats is indexed by four bits, one of 8 by three.
struct alignas(64) number_table {
    float of[16];

    GRADSTEP_HD constexpr void set(std::size_t k, double x) { of[k] = of[k + 8] = static_cast<float>(x); }
};
// A number of at most 2^22 that is added to it is rounded to a whole one, in the lowest bits.
inline constexpr float whole_numbers = 0x1p23f;

// The arithmetic of a map. Let h be the code of a magnitude, + 1 where the numbers have one sign. Then decade i has those from N
// to 2 N - 1, so that the exponent of h is that of its decade, in which
//
//     magnitude = 10^(i - 6) * (0.9 h + 0.45 - 0.8 N) / N        h + 1/2 = N * (magnitude * 10^(6 - i) / 0.9 + 8/9)
//
// The magnitudes of decade i from 1 on are the nearest from 10^(i - 6) * (0.1 + 0.18 / N) on, which is nearer to its first than to
// the last one below.
template <code_map map> struct code_tables {
    static constexpr bool has_sign = map == code_map::both_signs;
    static constexpr double first_number = has_sign ? 1 : 2; // N of decade 0
    static constexpr float zero_code = has_sign ? 127 : 0;
    static constexpr float offset = has_sign ? 0 : 1;   // h is the code + offset
    static constexpr float most = has_sign ? 128 : 256; // h of 1
    // Below it h has the line of decade 0: through 0 with both signs; with one sign it is below 0 there, and cut off.
    static constexpr float least = has_sign ? 1 : 2;

    // magnitude = gain * h + shift, by the exponent of h.
    number_table gain{}, shift{};
    // By the number of decades that are below a magnitude, 7 if it is nearest to 1: where the next begins; and code = slope *
    // magnitude + start before it is rounded, and at most `last`.
    number_table limit{}, slope{}, start{}, last{};

    static constexpr double number(std::size_t i) { return first_number * static_cast<double>(1u << i); }
    static constexpr double magnitude(std::size_t i, double k) {
        return decade_ends[i] * (0.1 + 0.9 * (k + 0.5) / number(i));
    }

    constexpr code_tables() {
        for (std::size_t i = 0; i < decades; ++i) {
            double const n = number(i), step = magnitude(i, 1) - magnitude(i, 0);
            std::size_t const exponent = i + (has_sign ? 7 : 0); // of n, and 127, by three bits
            gain.set(exponent % 8, step);
            shift.set(exponent % 8, magnitude(i, 0) - step * n);
            slope.set(i, 1 / step);
            start.set(i, n - offset - magnitude(i, 0) / step);
            last.set(i, 2 * n - 1 - static_cast<double>(offset));
            limit.set(i, i + 1 == decades ? (magnitude(i, n - 1) + 1) / 2
                                          : (magnitude(i, number(i) - 1) + magnitude(i + 1, 0)) / 2);
        }
        std::size_t const exponent_of_most = has_sign ? 6 : 7;
        gain.set(exponent_of_most, 1 / static_cast<double>(most));
        shift.set(exponent_of_most, 0);
        slope.set(decades, 0);
        start.set(decades, most - offset);
        last.set(decades, most - offset);
        limit.set(decades, std::numeric_limits<float>::max());
        if constexpr (has_sign) { // decade 0 has one magnitude, and 0 is below it
            gain.set(7, magnitude(0, 0));
            shift.set(7, 0);
            slope.set(0, 1 / magnitude(0, 0));
            start.set(0, 0);
        } else { // all that is not 0 has not the code of 0, by which it would be divided
            double const middle = (magnitude(0, 0) + magnitude(0, 1)) / 2;
            slope.set(0, 0.9 / middle);
            start.set(0, 0.6);
        }
    }
};
template <code_map map> inline constexpr code_tables<map> tables_of{};

// What the codes of a block stand for: its magnitudes are those of the map times the scale.
template <code_map map, pack V> struct decoder {
    number_table gain, shift;

    GRADSTEP_HD explicit decoder(V scale) {
        using io = pack_traits<V>;
        constexpr auto& of = tables_of<map>;
        for (std::size_t k = 0; k < 16; k += io::size) {
            io::store(gain.of + k, math::mul(io::load(of.gain.of + k, all_lanes{}), scale), all_lanes{});
            io::store(shift.of + k, math::mul(io::load(of.shift.of + k, all_lanes{}), scale), all_lanes{});
        }
    }
    // Of codes, as numbers from 0 to 255.
    GRADSTEP_HD V operator()(V code) const {
        using io = pack_traits<V>;
        using tables = code_tables<map>;
        V const number = code + V(tables::offset - tables::zero_code),
                h = tables::has_sign ? math::abs(number) : number;
        V const decade = math::max(V(tables::least), h);
        V const x = math::fma(h, io::by_exponent(gain, decade), io::by_exponent(shift, decade));
        if constexpr (tables::has_sign) return math::multiply_sign(x, number);
        else return math::max(V(0), x);
    }
};

// The codes of finite numbers, of the nearest multiples of the scale, before they are rounded to whole ones, ties to even ones. Its
// own roundings move a middle by less than 3e-5 of itself.
template <code_map map, pack V> struct encoder {
    using io = pack_traits<V>;
    using tables = code_tables<map>;
    // A decade is so many units of a float's bits, as a number, which are near its binary logarithm.
    static constexpr auto decades_per_unit = static_cast<float>(0.30103 / 0x1p23);

    number_table limit, slope;
    float first, sign;

    GRADSTEP_HD explicit encoder(float scale) {
        float const magnitude = math::abs(scale);
        constexpr auto& of = tables_of<map>;
        for (std::size_t k = 0; k < 16; k += io::size) {
            V const limits = io::load(of.limit.of + k, all_lanes{}), slopes = io::load(of.slope.of + k, all_lanes{});
            io::store(limit.of + k, math::min(V(largest_number<float>), math::mul(limits, V(magnitude))), all_lanes{});
            io::store(slope.of + k, math::div(slopes, V(magnitude)), all_lanes{});
        }
        first = whole_numbers + math::fnma(decades_per_unit, pack_traits<float>::bits_as_number(magnitude), 5.9f);
        sign = math::copysign(1.0f, scale);
    }
    GRADSTEP_HD V operator()(V x) const {
        constexpr auto& of = tables_of<map>;
        V const magnitude = tables::has_sign ? math::abs(x) : x;
        // Its decade, or the one below: the limits are far from where the guess changes, and its rounding.
        V const guess = math::fma(V(decades_per_unit), io::bits_as_number(magnitude), V(first));
        V const below = math::max(V(whole_numbers), guess);
        V const decade = math::select(magnitude >= io::by_number(limit, below), below + V(1), below);
        V const exact = math::fma(io::by_number(slope, decade), magnitude, io::by_number(of.start, decade));
        V const code = math::min(exact, io::by_number(of.last, decade));
        if constexpr (tables::has_sign)
            return math::fma(math::multiply_sign(code, x), V(sign), V(tables::zero_code)); // that of -1 is below 0
        else return math::select(x > V(0), code, V(0));
    }
};

// The elements of a block.
template <code_map map, pack V> GRADSTEP_INLINE void decode(coded_block const& from, float* to) {
    using io = pack_traits<V>;
    decoder<map, V> const decoded(V(from.scale));
    for (std::size_t i = 0; i < coded_block::length; i += io::size)
        io::store(to + i, decoded(io::load(from.codes + i, all_lanes{})), all_lanes{});
}

// The extremes of the elements of a block, and 0 among them, and whether all are finite.
struct extremes {
    float low, high;
    bool are_finite;
};
template <code_map map, pack V> GRADSTEP_INLINE extremes extremes_of(float const* x) {
    using io = pack_traits<V>;
    constexpr std::size_t n = coded_block::length;
    static_assert(n % (2 * io::size) == 0);
    V high0(0), high1(0), low0(0), low1(0), product0(0), product1(0); // with 0: NaN of what is not finite
    for (std::size_t i = 0; i < n; i += 2 * io::size) {
        V const x0 = io::load(x + i, all_lanes{}), x1 = io::load(x + i + io::size, all_lanes{});
        high0 = math::max(high0, x0);
        high1 = math::max(high1, x1);
        if constexpr (map == code_map::both_signs) {
            low0 = math::min(low0, x0);
            low1 = math::min(low1, x1);
        }
        product0 = math::fma(x0, V(0), product0);
        product1 = math::fma(x1, V(0), product1);
    }
    return {-io::highest(-math::min(low0, low1)), io::highest(math::max(high0, high1)),
            math::all<V>(product0 + product1 == V(0))};
}

// What is not finite becomes finite: an infinity the largest magnitude of the others, with its sign, NaN 0.
[[gnu::noinline, gnu::cold]] inline void make_finite(float* x) {
    float most = 0;
    for (std::size_t i = 0; i < coded_block::length; ++i)
        if (math::abs(x[i]) <= largest_number<float>) most = math::max(most, math::abs(x[i]));
    for (std::size_t i = 0; i < coded_block::length; ++i) {
        if (x[i] != x[i]) x[i] = 0;
        else if (math::abs(x[i]) > largest_number<float>) x[i] = math::copysign(most, x[i]);
    }
}

// The scale of a block of these elements, 0 of one whose numbers are all smaller than every normal float: then it is one of zeros.
// What is not finite is made so.
template <code_map map, pack V> GRADSTEP_INLINE float scale_of(float* x) {
    extremes found = extremes_of<map, V>(x);
    if (!found.are_finite) [[unlikely]] {
        make_finite(x);
        found = extremes_of<map, float>(x);
    }
    float const scale = found.high >= -found.low ? found.high : found.low;
    return math::abs(scale) < std::numeric_limits<float>::min() ? 0 : scale;
}

// The block of these elements, which are written to where the scale is very large or small.
template <code_map map, pack V> GRADSTEP_INLINE void encode(float* from, float scale, coded_block& to) {
    using io = pack_traits<V>;
    to.scale = scale;
    float const magnitude = math::abs(scale);
    if (magnitude > 0x1p100f || magnitude < 0x1p-100f) [[unlikely]] { // limits, or slopes, would be infinite
        if (scale == 0) {
            for (std::uint8_t& code : to.codes) code = static_cast<std::uint8_t>(code_tables<map>::zero_code);
            return;
        }
        float const factor = magnitude < 1 ? 0x1p60f : 0x1p-60f;
        for (std::size_t i = 0; i < coded_block::length; ++i) from[i] *= factor;
        scale *= factor;
    }
    encoder<map, V> const codes_of(scale);
    constexpr std::size_t together = 4;
    for (std::size_t i = 0; i < coded_block::length; i += together * io::size) {
        V codes[together];
        GRADSTEP_UNROLL
        for (std::size_t u = 0; u < together; ++u) codes[u] = codes_of(io::load(from + i + u * io::size, all_lanes{}));
        io::store_codes(to.codes + i, codes);
    }
}

} // namespace detail

/// Element k, below `coded_block::length`, of a block of a slot with this map: for those who look at a state. Of `parameter`:
/// `gs::element_of(gs::code_map::one_sign, w.state<"v">()[i / 256], i % 256)`.
inline float element_of(code_map map, coded_block const& block, std::size_t k) {
    float const code = block.codes[k];
    if (map == code_map::both_signs) return detail::decoder<code_map::both_signs, float>(block.scale)(code);
    return detail::decoder<code_map::one_sign, float>(block.scale)(code);
}

} // namespace GRADSTEP_ISA
} // namespace gradstep
