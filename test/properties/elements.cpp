// The 16-bit elements: conversions, in numbers and in kernels. bits.cpp holds every rule to the
// serial backend with them.
#include <support/catch.hpp>
#include <support/tensors.hpp>

#include <bit>
#include <cmath>
#include <limits>

namespace {

gs::bfloat16 from_bits(std::uint32_t bits) {
    gs::bfloat16 out;
    out.bits = static_cast<std::uint16_t>(bits);
    return out;
}

// Round to nearest, ties to even, from the definition: the neighbours of x among the values that
// bfloat16 has, compared in long double, in which their distance to x is exact. Beyond the largest,
// a next value 2^128 decides what is infinite.
std::uint16_t nearest(float x) {
    auto const bits = std::bit_cast<std::uint32_t>(x);
    auto const toward_zero = static_cast<std::uint16_t>(bits >> 16);
    if (std::isnan(x)) return static_cast<std::uint16_t>(toward_zero | 0x40);
    if (std::isinf(x)) return toward_zero;
    auto const away = static_cast<std::uint16_t>(toward_zero + 1);
    auto const value = [](std::uint16_t b) -> long double {
        float const f = static_cast<float>(from_bits(b));
        return std::isinf(f) ? std::copysign(std::ldexp(1.0L, 128), static_cast<long double>(f)) : f;
    };
    long double const down = std::abs(x - value(toward_zero)), up = std::abs(value(away) - x);
    if (down != up) return down < up ? toward_zero : away;
    return toward_zero % 2 == 0 ? toward_zero : away;
}

} // namespace

TEST_CASE("every bfloat16 survives the way to float and back", "[elements]") {
    std::size_t wrong = 0;
    for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
        auto const wide = static_cast<float>(from_bits(bits));
        auto const back = gs::bfloat16(wide).bits;
        std::uint32_t const expected = std::isnan(wide) ? bits | 0x40 : bits; // a NaN becomes quiet
        wrong += back != expected;
    }
    CHECK(wrong == 0);
}

TEST_CASE("float rounds to the nearest bfloat16, ties to even", "[elements]") {
    std::size_t wrong = 0;
    // Every bfloat16 (subnormals, both infinities, all NaNs) with what lies at, around and between
    // it and the next.
    for (std::uint32_t high = 0; high < 0x1'0000; ++high) {
        for (std::uint32_t const low :
             {0u, 1u, 2u, 0x1234u, 0x7ffeu, 0x7fffu, 0x8000u, 0x8001u, 0x9abcu, 0xfffeu, 0xffffu}) {
            auto const x = std::bit_cast<float>(high << 16 | low);
            wrong += gs::bfloat16(x).bits != nearest(x);
        }
    }
    CHECK(wrong == 0);
    CHECK(std::isinf(static_cast<float>(gs::bfloat16(std::numeric_limits<float>::max()))));
    CHECK(static_cast<float>(gs::bfloat16(1 + 1.0f / 256)) == 1);              // a tie, to even
    CHECK(static_cast<float>(gs::bfloat16(1 + 3.0f / 256)) == 1 + 4.0f / 256); // a tie, to even
}

TEST_CASE("kernels convert as the scalar does", "[elements]") {
    // sgd with a rate of 0 stores what it loads, so that conversion is all that happens; in mixed
    // it rounds the master.
    auto plain = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{0});
    auto step = plain.next_step();
    std::vector<gs::bfloat16> w, g;
    for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
        bool const subnormal = (bits & 0x7f80) == 0 && (bits & 0x7f) != 0; // flushed, as the rounding mode says
        if (!subnormal && bits != 0x8000) w.push_back(from_bits(bits));
    }
    g.resize(w.size());
    auto before = w;
    step(w, g);
    for (auto& x : before) x = gs::bfloat16(static_cast<float>(x));
    CHECK(difference<gs::bfloat16>(w, before) == "");

    auto mixed = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{0});
    std::vector<float> master;
    std::vector<gs::bfloat16> expected;
    for (std::uint32_t high = 0; high < 0x1'0000; ++high) {
        for (std::uint32_t const low : {0u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
            auto const x = std::bit_cast<float>(high << 16 | low);
            if (std::fpclassify(x) == FP_SUBNORMAL || std::bit_cast<std::uint32_t>(x) == 0x8000'0000) continue;
            master.push_back(x);
            expected.push_back(from_bits(nearest(x)));
        }
    }
    // The weights are the rounded masters, or the step would go on from them.
    std::vector<gs::bfloat16> rounded = expected, zeros(master.size());
    std::vector<float> masters_before = master;
    for (float& x : masters_before)
        if (std::isnan(x))
            x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) | 0x40'0000); // arithmetic makes it quiet
    mixed.next_step()(rounded, zeros, master);
    CHECK(difference<gs::bfloat16>(rounded, expected) == "");
    CHECK(difference<float>(master, masters_before) == "");
}

TEST_CASE("a master copy keeps the small updates that bfloat16 loses", "[elements]") {
    // A hundredth of bfloat16's distance between neighbours at 1, five hundred times.
    double const rate = 1.0 / 128 / 100;
    auto pure = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{rate});
    auto mixed = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{rate});
    std::vector<gs::bfloat16> a(99, gs::bfloat16(1.0f)), b = a, g(99, gs::bfloat16(-1.0f));
    std::vector<float> master(99);
    mixed.initialize(b, master);
    for (int k = 0; k < 500; ++k) {
        pure.next_step()(a, g);
        mixed.next_step()(b, g, master);
    }
    for (auto const w : a) CHECK(static_cast<float>(w) == 1);
    for (auto const w : b) CHECK(static_cast<float>(w) == 1 + 5.0f / 128);
}
