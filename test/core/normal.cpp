// The normal numbers of noisy rules: their accuracy against the quantile
// function, the distribution of draws, equal bits in packs.
#include <gradstep/backends/simd.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/kernel/detail/normal.hpp>
#include <gradstep/number/lanes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"

namespace gs = gradstep;

namespace {

using gs::detail::element_words;
using real = long double;

// Without keys, the word of an element is a bijection of its number. Its
// inverse.
std::uint32_t element_of(std::uint32_t word) {
    auto const unshifted = [](std::uint32_t y, unsigned shift) {
        std::uint32_t x = y;
        for (unsigned known = shift; known < 32; known += shift) x = y ^ x >> shift;
        return x;
    };
    auto const inverse = [](std::uint32_t odd) { // Newton's iteration modulo 2^32
        std::uint32_t x = odd;
        for (int k = 0; k < 5; ++k) x *= 2 - odd * x;
        return x;
    };
    std::uint32_t x = unshifted(word, 14) * inverse(element_words::multiplier3);
    x = unshifted(x, 15) * inverse(element_words::multiplier2);
    x = unshifted(x, 11) * inverse(element_words::multiplier1);
    return unshifted(x, 17);
}
constexpr element_words without_keys{{0, 0, 0}, 0};

// The probability that a normal number is beyond |x|, on one side.
real tail(real x) { return std::erfc(std::abs(x) / std::sqrt(2.0L)) / 2; }
real density(real x) { return std::exp(-x * x / 2) * 0.398942280401432677939946L; }

struct accuracy {
    real relative = 0, absolute = 0, distance = 0, largest = 0;

    template <class T> void add(std::uint32_t word) {
        std::uint32_t const i = element_of(word);
        if (without_keys.word(i) != word) absolute = 1;
        auto const k = static_cast<std::int32_t>(word);
        real const u = static_cast<real>(k) + 0.5L, q = std::abs(u) * 0x1p-32L;
        real const n = gs::detail::standard_normal<T>(without_keys, i);
        // The error of n to first order: its second order is below n / 2 of its
        // square.
        real const off = std::abs(tail(n) - q) / density(n);
        if (std::abs(u) < 0x1p30L) relative = std::max(relative, off / std::abs(n));
        absolute = std::max(absolute, off);
        distance = std::max(distance, std::abs(tail(n) - q));
        largest = std::max(largest, std::abs(n));
        if (n != 0 && (n > 0) != (k >= 0)) absolute = 1;
    }
};

} // namespace

TEMPLATE_TEST_CASE("a normal number is the quantile of its word", "[core][normal]", float, double) {
    accuracy of;
    constexpr std::uint32_t stride = GRADSTEP_TEST_EVERYTHING ? 1009 : 10'007;
    for (std::uint32_t word = 0; word < 0u - stride; word += stride) of.add<TestType>(word);
    for (std::uint32_t k = 0; k < 1u << 12; ++k) // both tails, and the middle
        for (std::uint32_t const word : {k, ~k, (1u << 31) + k, (1u << 31) - 1 - k}) of.add<TestType>(word);
    CAPTURE(of.relative, of.absolute, of.distance, of.largest);
    // As kernel/detail/normal.hpp says. The approximation is off by 3.5e-7 of n at most;
    // float adds its roundings.
    CHECK(of.relative < 0x1p-20L);
    CHECK(of.absolute < 0x1p-18L);
    CHECK(of.distance < 0x1p-23L);
    CHECK(of.largest < 6.339L);
    CHECK(of.largest > 6.33L);
}

TEST_CASE("draws are normal: moments, tails, the distance of Kolmogorov and Smirnov", "[core][normal]") {
    constexpr std::size_t n = GRADSTEP_TEST_EVERYTHING ? 1'000'000 : 200'000;
    // Tails: how many of n are beyond 1, 2, 3, 4.
    for (std::uint64_t const id : {0u, 1u, 77u}) {
        auto const words = gs::detail::noise_words(3, 12, id);
        std::vector<double> x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = gs::detail::standard_normal<float>(words, i);
        std::array<double, 5> moment{};
        for (double const each : x)
            for (int k = 1; k <= 4; ++k) moment[static_cast<std::size_t>(k)] += std::pow(each, k) / n;
        // Variances of x^k: 1, 2, 15, 96. Six standard deviations are exceeded once
        // in 5e8.
        double const six = 6 / std::sqrt(static_cast<double>(n));
        CAPTURE(id);
        CHECK(std::abs(moment[1]) < six);
        CHECK(std::abs(moment[2] - 1) < six * std::sqrt(2.0));
        CHECK(std::abs(moment[3]) < six * std::sqrt(15.0));
        CHECK(std::abs(moment[4] - 3) < six * std::sqrt(96.0));
        for (int limit = 1; limit <= 4; ++limit)
            for (double const sign : {1.0, -1.0}) {
                double const p = static_cast<double>(tail(limit));
                auto const beyond =
                    static_cast<double>(std::ranges::count_if(x, [&](double each) { return sign * each > limit; }));
                CHECK(std::abs(beyond - n * p) < 6 * std::sqrt(n * p) + 6);
            }
        std::ranges::sort(x);
        double distance = 0;
        for (std::size_t i = 0; i < n; ++i) {
            double const below = x[i] < 0 ? static_cast<double>(tail(x[i])) : 1 - static_cast<double>(tail(x[i]));
            distance = std::max({distance, std::abs(below - static_cast<double>(i) / n),
                                 std::abs(below - static_cast<double>(i + 1) / n)});
        }
        CHECK(distance * std::sqrt(static_cast<double>(n)) < 3.3); // 2 exp(-2 * 3.3^2) = 7e-10
    }
}

TEST_CASE("noise of other steps, ids, seeds and elements, and the words of "
          "rounding, are not correlated with it",
          "[core][normal]") {
    constexpr std::size_t n = 1 << 18;
    auto const first = gs::detail::noise_words(1, 1, 0);
    auto const correlation = [&](element_words const& other, std::uint64_t shift) {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i)
            sum += static_cast<double>(gs::detail::standard_normal<float>(first, i)) *
                   static_cast<double>(gs::detail::standard_normal<float>(other, i + shift));
        return std::abs(sum) / std::sqrt(static_cast<double>(n));
    };
    for (auto const& other :
         {gs::detail::noise_words(2, 1, 0), gs::detail::noise_words(1, 2, 0), gs::detail::noise_words(1, 1, 1),
          gs::detail::noise_words(0, 1, 1), element_words::of(1, 1, 0)})
        CHECK(correlation(other, 0) < 6);
    for (std::uint64_t const shift : {1u, 2u, 8u, 64u, 1000u}) CHECK(correlation(first, shift) < 6);
    CHECK(correlation(first, 0) > 100); // it is able to fail
}

TEMPLATE_TEST_CASE("packs have the bits of single elements", "[core][normal]", float, double) {
    auto const words = gs::detail::noise_words(5, 6, 7);
    std::uint64_t const wrap = std::uint64_t(1) << 32;
    auto const check = [&]<class V>(V) {
        using io = gs::pack_traits<V>;
        alignas(64) std::array<TestType, io::size> out; // lanes load and store whole groups
        std::size_t wrong = 0;
        for (std::uint64_t const first : {std::uint64_t(0), std::uint64_t(12'345), wrap - 3000})
            for (std::uint64_t i = first; i < first + 4000; ++i) {
                io::store(out.data(), gs::detail::standard_normal<V>(words, i), gs::all_lanes{});
                for (std::size_t k = 0; k < io::size; ++k)
                    wrong += out[k] != gs::detail::standard_normal<TestType>(words, i + k);
            }
        CHECK(wrong == 0);
    };
    check(gs::simd<TestType, gs::detail::best_arch>());
    check(gs::lanes<TestType, 4>());
    check(gs::lanes<gs::simd<TestType, gs::detail::best_arch>, 2>());
}

TEMPLATE_TEST_CASE("a positive number is its significand times a power of two", "[core][normal]", float, double) {
    using io = gs::pack_traits<TestType>;
    for (TestType const x : {TestType(1), TestType(0x1p-31), TestType(0.75), TestType(0x1.fffffep-1),
                             TestType(0x1p-126), TestType(3.5), std::numeric_limits<TestType>::max()}) {
        int exponent = 0;
        TestType const m = 2 * std::frexp(x, &exponent);
        CHECK(io::significand(x) == m);
        CHECK(io::exponent(x) == TestType(exponent - 1));
    }
}
