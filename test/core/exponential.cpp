// The exponential that catch-up multiplies rows by, against the C library's in long double.
#include <support/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

#include <gradstep/number/detail/exponential.hpp>

namespace gs = gradstep;
using gs::detail::exp_of_negative;

namespace {

// How far the result is from exp(x), in units in the last place of exp(x).
long double error_in_ulp(double x) {
    long double const exact = std::exp(static_cast<long double>(x));
    int exponent = 0;
    std::frexp(exact, &exponent);
    return std::abs(exp_of_negative(x) - exact) / std::ldexp(1.0L, exponent - std::numeric_limits<double>::digits);
}

// The polynomial ends with 1 + r * p, which rounds by half an ulp of a number in [0.7, 1.42], and r
// * p, at most 0.42, is off by its own roundings and the roundings of r: below half an ulp more.
// Without an FMA the product rounds too, by at most a quarter.
constexpr long double allowed = GRADSTEP_FMA ? 1 : 1.25L;
// A long double of 113 bits is computed by software: on AArch64, here under an emulator.
constexpr int draws = std::numeric_limits<long double>::digits > 64 ? 40'000 : 400'000;

} // namespace

TEST_CASE("exp_of_negative is within an ulp", "[exponential]") {
    long double worst = 0;
    double at = 0;
    auto const check = [&](double x) {
        long double const error = error_in_ulp(x);
        if (error <= worst) return;
        worst = error;
        at = x;
    };
    std::uint64_t state = 1;
    for (int k = 0; k < draws; ++k) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double const fraction = static_cast<double>(state >> 11) * 0x1p-53;
        check(-708 * fraction);
        check(-std::ldexp(1 + fraction, -static_cast<int>(state % 60))); // small arguments, by their exponent
    }
    // Around multiples of ln 2 / 2, where the reduction changes k.
    for (int k = 0; k < 2040; ++k)
        for (int away = -3; away <= 3; ++away) {
            double x = -k * 0.34657359027997264;
            for (int n = 0; n < std::abs(away); ++n) x = std::nextafter(x, away < 0 ? -1000.0 : 0.0);
            if (x <= 0 && x >= -708) check(x);
        }
    CAPTURE(at, worst);
    CHECK(worst < allowed);
    CHECK(worst > 0.4); // or nothing was measured
}

TEST_CASE("exp_of_negative at its ends", "[exponential]") {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    CHECK(exp_of_negative(0.0) == 1);
    CHECK(exp_of_negative(-0.0) == 1);
    CHECK(exp_of_negative(-std::numeric_limits<double>::denorm_min()) == 1);
    CHECK(exp_of_negative(-infinity) == 0);
    CHECK(exp_of_negative(std::numeric_limits<double>::lowest()) == 0);
    CHECK(exp_of_negative(std::nextafter(-708.0, -infinity)) == 0);
    CHECK(std::isnormal(exp_of_negative(-708)));
    CHECK(error_in_ulp(-708) < allowed);
}

TEST_CASE("exp(x) - 1 keeps its digits where x is small", "[exponential]") {
    // In units in the last place: r p rounds by half a unit; p, below 1.2, by one more through its
    // own roundings and r's; twice as much if -1/2 halves the rest.
    auto const error = [](double x) {
        long double const exact = std::expm1(static_cast<long double>(x));
        int exponent = 0;
        std::frexp(exact, &exponent);
        return std::abs(gs::detail::exp_and_less_one(x).less_one - exact) /
               std::ldexp(1.0L, exponent - std::numeric_limits<double>::digits);
    };
    long double worst = 0;
    std::uint64_t state = 1;
    for (int k = 0; k < draws; ++k) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double const fraction = static_cast<double>(state >> 11) * 0x1p-53;
        worst = std::max({worst, error(-2 * fraction), error(-60 * fraction), error(fraction),
                          error(-std::ldexp(1 + fraction, -static_cast<int>(state % 60)))});
    }
    CHECK(worst < (GRADSTEP_FMA ? 3 : 4));
    CHECK(worst > 0.4);
    CHECK(gs::detail::exp_and_less_one(0).less_one == 0);
    CHECK(gs::detail::exp_and_less_one(-1e-300).less_one == -1e-300);
    CHECK(gs::detail::exp_and_less_one(-800).less_one == -1);
}

TEST_CASE("exp_of_negative is monotone, at distances above its error", "[exponential]") {
    for (double const from : {0.0, -0.3, -0.35, -1.0, -30.0, -500.0}) {
        double const apart = 0x1p-50 * std::max(1.0, -from); // four ulp of the result, or more
        for (int k = 0; k < 20'000; ++k)
            REQUIRE(exp_of_negative(from - (k + 1) * apart) < exp_of_negative(from - k * apart));
    }
}
