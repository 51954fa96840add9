// float16: what it holds, how a float becomes one, and packs that convert as the scalar does.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

gs::float16 from_bits(std::uint32_t bits) {
    gs::float16 out;
    out.bits = static_cast<std::uint16_t>(bits);
    return out;
}

// What the bits of a positive number stand for, from the definition: f * 2^-24 with exponent 0,
// else (1024 + f) * 2^(e - 25). At 0x7c00, infinity, it is 2^16: the number that would come next,
// which decides what is infinite.
long double magnitude(std::uint32_t bits) {
    std::uint32_t const e = bits >> 10, f = bits & 0x3ff;
    return e == 0 ? std::ldexp(static_cast<long double>(f), -24)
                  : std::ldexp(static_cast<long double>(1024 + f), static_cast<int>(e) - 25);
}

// Round to nearest, ties to even, from the definition: the neighbours of x among those numbers,
// compared in long double, in which their distance to x is exact.
std::uint16_t nearest(float x) {
    auto const bits = std::bit_cast<std::uint32_t>(x);
    std::uint32_t const sign = bits >> 16 & 0x8000;
    if (std::isnan(x))
        return static_cast<std::uint16_t>(sign | 0x7e00 | (bits >> 13 & 0x3ff)); // quiet, as far as it fits
    static std::vector<long double> const all = [] {
        std::vector<long double> out;
        for (std::uint32_t b = 0; b <= 0x7c00; ++b) out.push_back(magnitude(b));
        return out;
    }();
    auto const a = static_cast<long double>(std::abs(x));
    auto const above = std::upper_bound(all.begin(), all.end(), a);
    if (above == all.end()) return static_cast<std::uint16_t>(sign | 0x7c00);
    auto const away = static_cast<std::uint32_t>(above - all.begin()), toward_zero = away - 1;
    long double const down = a - all[toward_zero], up = all[away] - a;
    std::uint32_t const near =
        down != up ? (down < up ? toward_zero : away) : (toward_zero % 2 == 0 ? toward_zero : away);
    return static_cast<std::uint16_t>(sign | near);
}

// Every float16 and 2^16 with what lies at, around and half-way between it and the next, of either
// sign; floats far below and far above; infinities; NaNs whose payload fits, is cut, and is lost.
// NaNs are quiet: a load of a signalling one by another instruction than the conversion's may quiet
// it first.
std::vector<float> const& boundaries() {
    static std::vector<float> const all = [] {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        std::vector<float> out{1e-45f,  1e-40f, 1e-30f, 0x1p-26f, 1e5f, 1e30f, std::numeric_limits<float>::max(),
                               infinity};
        for (std::uint32_t b = 0; b <= 0x7c00; ++b) {
            auto const here = static_cast<float>(magnitude(b)), next = static_cast<float>(magnitude(b + 1));
            auto const half = static_cast<float>((magnitude(b) + magnitude(b + 1)) / 2);
            for (float const x : {here, half}) {
                out.push_back(std::nextafter(x, 0.0f));
                out.push_back(x);
                out.push_back(std::nextafter(x, infinity));
            }
            out.push_back(here + (next - here) / 4);
        }
        for (std::uint32_t payload = 0; payload < 0x400; ++payload)
            for (std::uint32_t const low : {0u, 1u, 0x1fffu})
                out.push_back(std::bit_cast<float>(0x7fc0'0000u | (payload & 0x1ff) << 13 | low));
        std::size_t const n = out.size();
        for (std::size_t i = 0; i < n; ++i) out.push_back(-out[i]);
        return out;
    }();
    return all;
}

std::size_t differences(std::vector<gs::float16> const& x, std::vector<std::uint16_t> const& bits) {
    std::size_t out = x.size() != bits.size();
    for (std::size_t i = 0; i < std::min(x.size(), bits.size()); ++i) out += x[i].bits != bits[i];
    return out;
}

} // namespace

TEST_CASE("every float16 survives the way to float and back", "[core][float16]") {
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
        auto const wide = static_cast<float>(from_bits(bits));
        std::uint32_t const absolute = bits & 0x7fff;
        if (absolute <= 0x7bff)
            wrong += static_cast<long double>(wide) != (bits & 0x8000 ? -magnitude(absolute) : magnitude(absolute));
        wrong += std::isinf(wide) != (absolute == 0x7c00);
        wrong += std::isnan(wide) != (absolute > 0x7c00);
        wrong += std::signbit(wide) != ((bits & 0x8000) != 0);
        std::uint32_t const expected = absolute > 0x7c00 ? bits | 0x200 : bits; // a NaN becomes quiet
        wrong += gs::float16(wide).bits != expected;
    }
    CHECK(wrong == 0);
    CHECK(static_cast<float>(from_bits(1)) == 0x1p-24f);
    CHECK(static_cast<float>(from_bits(0x7bff)) == 65504);
}

TEST_CASE("float rounds to the nearest float16, ties to even", "[core][float16]") {
    std::size_t wrong = 0;
    for (float const x : boundaries()) wrong += gs::float16(x).bits != nearest(x);
    CHECK(wrong == 0);

    CHECK(static_cast<float>(gs::float16(1 + 0x1p-11f)) == 1);            // a tie, to even
    CHECK(static_cast<float>(gs::float16(1 + 0x3p-11f)) == 1 + 0x1p-9f);  // a tie, to even
    CHECK(static_cast<float>(gs::float16(0x1p-25f)) == 0);                // a tie with 0
    CHECK(static_cast<float>(gs::float16(0x3p-25f)) == 0x1p-23f);         // a tie of subnormal numbers
    CHECK(static_cast<float>(gs::float16(0x1.ff8p-15f)) == 0x1.ff8p-15f); // the largest subnormal number
    CHECK(static_cast<float>(gs::float16(65519.996f)) == 65504);          // below the tie with 2^16
    CHECK(std::isinf(static_cast<float>(gs::float16(65520.0f))));
    CHECK(gs::float16(-1e30f).bits == 0xfc00);
}

TEST_CASE("float16 compares as the numbers do", "[core][float16]") {
    CHECK(gs::float16(0.0f) == gs::float16(-0.0f));
    CHECK(gs::float16(1.0f) != gs::float16(2.0f));
    CHECK(from_bits(0x7e00) != from_bits(0x7e00));
    constexpr gs::float16 constant(0.5f);
    static_assert(constant.bits == 0x3800 && static_cast<float>(constant) == 0.5f);
}

// F16C, AVX-512, or lane by lane: what this program is compiled for.
TEMPLATE_TEST_CASE("packs convert float16 as the scalar does, to the bit", "[core][float16]",
                   (gs::simd<float, gs::detail::best_arch>), (gs::lanes<float, 4>), float) {
    using io = gs::pack_traits<TestType>;
    SECTION("to float, subnormal numbers and NaNs too") {
        std::vector<gs::float16> half;
        for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) half.push_back(from_bits(bits));
        std::vector<float> wide(half.size());
        for (std::size_t i = 0; i < half.size(); i += io::size)
            io::store(wide.data() + i, io::load(half.data() + i, gs::all_lanes{}), gs::all_lanes{});
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < half.size(); ++i)
            wrong += std::bit_cast<std::uint32_t>(wide[i]) != std::bit_cast<std::uint32_t>(static_cast<float>(half[i]));
        CHECK(wrong == 0);
    }
    SECTION("from float") {
        std::vector<float> wide = boundaries();
        wide.resize(wide.size() / io::size * io::size);
        std::vector<gs::float16> half(wide.size());
        std::vector<std::uint16_t> expected;
        for (float const x : wide) expected.push_back(nearest(x));
        for (std::size_t i = 0; i < wide.size(); i += io::size)
            io::store(half.data() + i, io::load(wide.data() + i, gs::all_lanes{}), gs::all_lanes{});
        CHECK(differences(half, expected) == 0);
    }
    SECTION("of a part of a pack, where it can") {
        if constexpr (io::template can_mask<gs::float16>) {
            for (std::size_t count = 0; count <= io::size; ++count) {
                std::vector<float> wide(io::size);
                for (std::size_t i = 0; i < io::size; ++i) wide[i] = 0.1f * static_cast<float>(i + 1);
                std::vector<gs::float16> half(io::size, from_bits(0x1234));
                auto const which = io::first(count);
                io::store(half.data(), io::load(wide.data(), gs::all_lanes{}), which);
                std::vector<float> back(io::size);
                io::store(back.data(), io::load(half.data(), which), gs::all_lanes{});
                for (std::size_t i = 0; i < io::size; ++i) {
                    CHECK(half[i].bits == (i < count ? nearest(wide[i]) : 0x1234));
                    CHECK(back[i] == static_cast<float>(half[i < count ? i : 0])); // idle lanes have the first
                }
            }
        }
    }
}

TEST_CASE("kernels convert float16 as the scalar does, subnormal numbers too", "[core][float16]") {
    // sgd with a rate of 0 stores what it loads, so that conversion is all that happens; in mixed
    // it rounds the master.
    auto const check = [](auto const& backend) {
        std::vector<gs::float16> w;
        for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits)
            if ((bits & 0x7fff) <= 0x7c00 && bits != 0x8000) w.push_back(from_bits(bits)); // -0 - 0 * g may be 0
        std::vector<gs::float16> const before = w, g(w.size());
        gs::make_updater<gs::float16>(gs::sgd{}, gs::constant{0}, backend).next_step()(w, g);
        CHECK(same_bits(w, before));

        std::vector<float> master;
        std::vector<std::uint16_t> expected;
        for (float const x : boundaries()) {
            if (std::isnan(x) || std::fpclassify(x) == FP_SUBNORMAL || x == 0) continue; // floats are flushed
            master.push_back(x);
            expected.push_back(nearest(x));
        }
        // The weights are the rounded masters, or the step would go on from them.
        std::vector<gs::float16> rounded(master.size()), zeros(master.size());
        for (std::size_t i = 0; i < rounded.size(); ++i) rounded[i] = from_bits(expected[i]);
        std::vector<float> const masters = master;
        gs::make_updater<gs::mixed<gs::float16>>(gs::sgd{}, gs::constant{0}, backend)
            .next_step()(rounded, zeros, master);
        CHECK(differences(rounded, expected) == 0);
        CHECK(master == masters);
    };
    check(gs::serial_backend{});
    check(gs::simd_backend{});
}

TEST_CASE("a float16 parameter overflows to infinity, and its master copy does not", "[core][float16]") {
    auto mixed = gs::make_updater<gs::mixed<gs::float16>>(gs::sgd{}, gs::constant{1});
    std::vector<gs::float16> w(9, gs::float16(65504.0f)), g(9, gs::float16(-32.0f));
    std::vector<float> master(9);
    mixed.initialize(w, master);
    mixed.next_step()(w, g, master);
    for (std::size_t i = 0; i < 9; ++i) {
        CHECK(w[i].bits == 0x7c00);
        CHECK(master[i] == 65536);
    }
    for (auto& x : g) x = gs::float16(32.0f);
    mixed.next_step()(w, g, master);
    for (auto const x : w) CHECK(static_cast<float>(x) == 65504);
}
