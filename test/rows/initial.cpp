// Initial values of a table: the numbers drawn, their distribution, and that a row has the same
// bits in every way.
#include <gradstep/policy/describe.hpp>
#include <gradstep/rows/initial.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;
using gs::detail::check_initial;
using gs::detail::fill_rows;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// The same chance of a false alarm for each check of a distribution, if its draws were truly
// random. They are fixed, so that it is a chance once and not in each run.
constexpr double alpha = 1e-9;

struct options {
    gs::initial_values initial;
    bool other = false;
};
static_assert(std::is_trivially_copyable_v<gs::initial_values>);

template <class T>
std::vector<T> table_of(gs::initial_values const& initial, std::uint64_t rows, std::size_t width,
                        std::uint64_t first_row = 0) {
    std::vector<T> out(rows * width);
    fill_rows(initial, out.data(), first_row, rows, width);
    return out;
}

template <class T> T first_value(options const& given) { return table_of<T>(given.initial, 1, 1).front(); }

double element_of(gs::initial_values const& initial, std::uint64_t row, std::size_t column) {
    return table_of<double>(initial, 1, column + 1, row).back();
}

double uniform_cdf(double x) { return x; } // of [0, 1]
double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

/// Dvoretzky, Kiefer & Wolfowitz, with Massart's constant: n draws stay closer than this to their
/// distribution function, except with a probability of alpha. The grid of 2^-32 in the 32 bits of a
/// draw adds half of it.
double largest_distance(std::size_t n) {
    return std::sqrt(std::log(2 / alpha) / (2 * static_cast<double>(n))) + 0x1p-33;
}

/// Kolmogorov's distance between draws and a distribution function.
template <class Cdf> double distance(std::vector<double> x, Cdf const& cdf) {
    std::sort(x.begin(), x.end());
    auto const n = static_cast<double>(x.size());
    double largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        double const expected = cdf(x[i]), below = static_cast<double>(i) / n;
        largest = std::max({largest, expected - below, below + 1 / n - expected});
    }
    return largest;
}

/// Whether pairs (x, y) show a correlation of their ranks, or of the ranks' distances from the
/// middle. By Hoeffding the mean of n independent numbers of mean 0 in [-m, m] stays below m
/// * sqrt(2 * log(2 / alpha) / n), except with probability alpha.
template <class Cdf> bool uncorrelated(std::vector<double> const& x, std::vector<double> const& y, Cdf const& cdf) {
    REQUIRE(x.size() == y.size());
    double sum = 0, sum_of_squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        double const a = 2 * cdf(x[i]) - 1, b = 2 * cdf(y[i]) - 1; // in [-1, 1], evenly
        sum += a * b;
        sum_of_squares += (a * a - 1.0 / 3) * (b * b - 1.0 / 3);
    }
    auto const n = static_cast<double>(x.size());
    double const bound = std::sqrt(2 * std::log(2 / alpha) / n);
    return std::abs(sum / n) < bound && std::abs(sum_of_squares / n) < 4.0 / 9 * bound;
}

std::vector<double> every_second(std::vector<double> const& x, std::size_t from) {
    std::vector<double> out;
    for (std::size_t i = from; i < x.size(); i += 2) out.push_back(x[i]);
    return out;
}

/// f(draws) for a table, one column of many rows, one row of many columns, and one element under
/// many seeds.
template <class Distribution, class F> void for_each_direction(Distribution distribution, F const& f) {
    constexpr std::size_t n = 1 << 16;
    f("table", table_of<double>(distribution, n / 16, 16));
    f("column", table_of<double>(distribution, n, 1));
    f("row", table_of<double>(distribution, 1, n, 3));
    std::vector<double> over_seeds(n);
    for (double& x : over_seeds) {
        ++distribution.seed;
        fill_rows(distribution, &x, 5, 1, 1);
    }
    f("seeds", over_seeds);
}

/// Every kind of initial values, for a table of T of the given shape.
template <class T> class kinds {
public:
    kinds(std::size_t rows, std::size_t width) : values_(numbers<T>(rows * width, 1)) {}
    std::array<gs::initial_values, 5> all() const {
        return {0, -0.1, gs::uniform{-0.05, 0.1, 7}, gs::normal{0.5, 2, 7}, values_};
    }

private:
    std::vector<T> values_;
};

} // namespace

TEST_CASE("an option takes numbers, distributions and containers", "[rows]") {
    std::vector<float> const single{1.5f};
    std::vector<double> two_sided{2.5};
    std::array const half{gs::bfloat16(3.5f)};
    CHECK(first_value<float>({}) == 0);
    CHECK(first_value<float>({.initial = {}}) == 0);
    CHECK(first_value<float>({.initial = 2}) == 2);
    CHECK(first_value<float>({.initial = std::int64_t{-3}}) == -3);
    CHECK(first_value<float>({.initial = 0.1}) == 0.1f);
    CHECK(first_value<double>({.initial = 0.1f}) == static_cast<double>(0.1f));
    CHECK(first_value<double>({.initial = 0.1, .other = true}) == 0.1);
    CHECK(first_value<double>({.initial = gs::uniform{4, 4, 1}}) == 4);
    CHECK(first_value<double>({.initial = gs::normal{.mean = 5, .deviation = 0}}) == 5);
    CHECK(first_value<float>({.initial = single}) == 1.5f);
    CHECK(first_value<float>({.initial = std::vector{1.5f}}) == 1.5f);
    CHECK(first_value<float>({.initial = std::span(single)}) == 1.5f);
    CHECK(first_value<float>({.initial = std::span<float const>(single)}) == 1.5f);
    CHECK(first_value<double>({.initial = two_sided}) == 2.5);
    CHECK(first_value<double>({.initial = std::span<double>(two_sided)}) == 2.5);
    CHECK(first_value<gs::bfloat16>({.initial = half}) == gs::bfloat16(3.5f));
    CHECK(gs::describe(gs::uniform{-0.5, 0.5, 3}) == "uniform{low = -0.5, high = 0.5, seed = 3}");
    CHECK(gs::describe(gs::normal{0, 0.5}) == "normal{mean = 0, deviation = 0.5, seed = 0}");
}

// Computed by another program, in exact arithmetic; low and high are such that nothing is rounded.
TEST_CASE("the bits of uniform values are fixed", "[rows]") {
    gs::uniform const uniform{-0.25, 0.75, 0x123456789abcdef0};
    CHECK(element_of(uniform, 0, 0) == -0x1.b69b25dcp-3);
    CHECK(element_of(uniform, 0, 3) == -0x1.4c41b228p-4);
    CHECK(element_of(uniform, 5, 6) == -0x1.8d4f4848p-4);
    CHECK(element_of(uniform, (std::uint64_t{1} << 32) + 7, 5) == 0x1.16bf213fp-1);
    CHECK(element_of(uniform, std::uint64_t{1} << 40, 1) == 0x1.b16ca156p-2);
}

// By the same program, in double. Here and there log, sqrt, cos, sin, the angle (below 8: it errs
// by 2^-51) and three products each err by a few 2^-53 of numbers below 8.
TEST_CASE("the numbers of normal values are fixed", "[rows]") {
    gs::normal const normal{1, 0.5, 0x123456789abcdef0};
    auto const near = [](double x) { return Approx(x).margin(0x1p-46).epsilon(0); };
    CHECK(element_of(normal, 0, 0) == near(-0x1.11100b204dadcp-2));
    CHECK(element_of(normal, 0, 3) == near(0x1.4cec8e28025aep+0));
    CHECK(element_of(normal, 5, 6) == near(0x1.f6971b9451318p+0));
    CHECK(element_of(normal, (std::uint64_t{1} << 32) + 7, 5) == near(0x1.b32e31877326p-1));
    CHECK(element_of(normal, std::uint64_t{1} << 40, 1) == near(0x1.03c500d6aa036p-2));
}

TEST_CASE("uniform values are uniform, in every direction", "[rows]") {
    for_each_direction(gs::uniform{0, 1, 11}, [](std::string const& direction, std::vector<double> const& x) {
        CAPTURE(direction);
        CHECK(distance(x, uniform_cdf) < largest_distance(x.size()));
        CHECK(uncorrelated(every_second(x, 0), every_second(x, 1), uniform_cdf));
    });
}

TEST_CASE("normal values are normal, in every direction", "[rows]") {
    for_each_direction(gs::normal{0, 1, 12}, [](std::string const& direction, std::vector<double> const& x) {
        CAPTURE(direction);
        CHECK(distance(x, normal_cdf) < largest_distance(x.size()));
        CHECK(uncorrelated(every_second(x, 0), every_second(x, 1), normal_cdf));
    });
}

TEST_CASE("mean and variance are those asked for", "[rows]") {
    constexpr std::size_t rows = 1 << 14, width = 16;
    constexpr auto n = static_cast<double>(rows * width);
    double const x = std::log(2 / alpha);
    auto const moments = [&](gs::initial_values const& initial, double mean) {
        double sum = 0, squares = 0;
        for (double const value : table_of<double>(initial, rows, width)) {
            sum += value - mean;
            squares += (value - mean) * (value - mean);
        }
        return std::pair(sum / n, squares / n);
    };
    // Hoeffding: the mean of numbers in an interval of length c stays within
    // c * sqrt(log(2 / alpha) / (2 * n)).
    auto const [uniform_mean, uniform_variance] = moments(gs::uniform{-1, 3, 5}, 1);
    CHECK(std::abs(uniform_mean) < 4 * std::sqrt(x / (2 * n)));
    CHECK(std::abs(uniform_variance - 16.0 / 12) < 4 * std::sqrt(x / (2 * n)));
    // The mean of normal numbers is normal: its tails are below exp(-t^2 / 2). Their squares' sum
    // is chi-squared: within 2 * sqrt(n * x) + 2 * x of n (Laurent & Massart 2000, lemma 1).
    auto const [normal_mean, normal_variance] = moments(gs::normal{-2, 0.5, 5}, -2);
    CHECK(std::abs(normal_mean) < 0.5 * std::sqrt(2 * x / n));
    CHECK(std::abs(normal_variance / 0.25 - 1) < 2 * std::sqrt(x / n) + 2 * x / n);
}

TEST_CASE("seeds and rows of their own numbers", "[rows]") {
    auto const draws = [](std::uint64_t seed, std::uint64_t first_row) {
        return table_of<double>(gs::uniform{0, 1, seed}, 1 << 12, 4, first_row);
    };
    auto const x = draws(1, 0);
    for (std::uint64_t const seed : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{1} | std::uint64_t{1} << 32})
        CHECK(uncorrelated(x, draws(seed, 0), uniform_cdf));
    for (std::uint64_t const row : {std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{1} << 63})
        CHECK(uncorrelated(x, draws(1, row), uniform_cdf));
    CHECK_FALSE(uncorrelated(x, draws(1, 0), uniform_cdf));
}

TEMPLATE_TEST_CASE("a row has the same bits however rows are split and in whatever order", "[rows]", float, double,
                   gs::bfloat16) {
    constexpr std::size_t rows = 23;
    for (std::size_t const width : {1u, 2u, 3u, 4u, 5u, 8u, 67u}) {
        kinds<TestType> const kinds(rows, width);
        for (auto const& initial : kinds.all()) {
            auto const whole = table_of<TestType>(initial, rows, width);
            for (std::size_t const chunk : {1u, 2u, 7u, 22u}) {
                CAPTURE(width, chunk);
                std::vector<TestType> forward(rows * width, TestType(9.0f)), backward = forward;
                for (std::size_t row = 0; row < rows; row += chunk)
                    fill_rows(initial, forward.data() + row * width, row, std::min(chunk, rows - row), width);
                for (std::size_t end = rows; end > 0; end -= std::min(chunk, end)) {
                    std::size_t const count = std::min(chunk, end), row = end - count;
                    fill_rows(initial, backward.data() + row * width, row, count, width);
                }
                CHECK(same_bits(forward, whole));
                CHECK(same_bits(backward, whole));
            }
        }
    }
}

TEST_CASE("a wider table begins with the numbers of a narrower one", "[rows]") {
    for (gs::initial_values const initial : {gs::initial_values(gs::uniform{0, 1, 3}), {gs::normal{0, 1, 3}}}) {
        auto const narrow = table_of<float>(initial, 1, 6, 9);
        auto wide = table_of<float>(initial, 1, 35, 9);
        wide.resize(6);
        CHECK(same_bits(narrow, wide));
    }
}

TEMPLATE_TEST_CASE("only the rows asked for are written", "[rows]", float, double, gs::bfloat16) {
    constexpr std::size_t rows = 6, width = 5;
    kinds<TestType> const kinds(rows, width);
    for (auto const& initial : kinds.all()) {
        std::vector<TestType> const whole = table_of<TestType>(initial, rows, width);
        std::vector<TestType> out(rows * width, TestType(9.0f)), expected = out;
        std::copy_n(whole.begin() + 2 * width, 3 * width, expected.begin() + 2 * width);
        fill_rows(initial, out.data() + 2 * width, 2, 3, width);
        CHECK(same_bits(out, expected));
        fill_rows(initial, out.data(), 1, 0, width);
        fill_rows(initial, out.data(), 0, 3, 0);
        CHECK(same_bits(out, expected));
    }
}

TEST_CASE("values are drawn in double and rounded once to the table's type", "[rows]") {
    for (gs::initial_values const initial :
         {gs::initial_values(0.1), {gs::uniform{-0.05, 0.05, 1}}, {gs::normal{0, 0.02, 1}}}) {
        auto const wide = table_of<double>(initial, 50, 33);
        std::vector<float> single;
        std::vector<gs::bfloat16> half;
        for (double const x : wide) {
            single.push_back(static_cast<float>(x));
            half.emplace_back(static_cast<float>(x));
        }
        CHECK(same_bits(table_of<float>(initial, 50, 33), single));
        CHECK(same_bits(table_of<gs::bfloat16>(initial, 50, 33), half));
    }
}

TEST_CASE("rows beyond those of a container are zero", "[rows]") {
    std::vector<float> const values = numbers<float>(12, 1);
    std::vector<float> expected = values;
    expected.resize(20);
    CHECK(same_bits(table_of<float>(values, 5, 4), expected));
    CHECK(table_of<float>(values, 2, 4, 3) == std::vector<float>(8));
    CHECK(table_of<float>(values, 2, 4, 100) == std::vector<float>(8));
}

TEST_CASE("drawn values stay in their bounds, whatever the words", "[rows]") {
    constexpr std::uint32_t last = 0xffffffff;
    double const next = std::nextafter(1.0, 2.0), large = std::numeric_limits<double>::max() / 2;
    for (auto const& [low, high] : {std::pair{0.0, 1.0},
                                    {-0.05, 0.05},
                                    {1.0, next},
                                    {-large, large},
                                    {-1e-320, 1e-320},
                                    {1.0, 1.0},
                                    {0.1, 0.7},
                                    {-1e300, 1e-300}}) {
        double x[4];
        gs::detail::draw(gs::uniform{low, high}, gs::philox_words{{0, last, 1, last - 1}}, x);
        for (double const value : x) CHECK((low <= value && value <= high));
        CHECK((x[0] <= x[2] && x[2] <= x[3] && x[3] <= x[1]));
    }
    double farthest = 0;
    for (std::uint32_t const u : {std::uint32_t{0}, last})
        for (std::uint32_t const v : {std::uint32_t{0}, std::uint32_t{1} << 30, std::uint32_t{1} << 31, last}) {
            double x[4];
            gs::detail::draw(gs::normal{0, 1}, gs::philox_words{{u, v, u, v}}, x);
            for (double const value : x) farthest = std::max(farthest, std::abs(value));
        }
    CHECK(farthest < 6.77);
    CHECK(farthest > 6.76);
}

TEST_CASE("zeros are known as such", "[rows]") {
    std::vector<float> const zeros(3);
    CHECK(gs::detail::is_zero({}));
    CHECK(gs::detail::is_zero(0));
    CHECK_FALSE(gs::detail::is_zero(-0.0)); // its bits differ from the bits of untouched memory
    CHECK_FALSE(gs::detail::is_zero(1e-300));
    CHECK_FALSE(gs::detail::is_zero(gs::uniform{0, 0}));
    CHECK_FALSE(gs::detail::is_zero(zeros));
}

TEST_CASE("initial values that cannot be are refused", "[rows]") {
    auto const value = [](gs::initial_values const& initial) {
        return refusal<gs::value_error>([&] { check_initial<float>(initial, 3, 4); });
    };
    CHECK(value(infinity) == "initial: inf is out of range; expected finite in float");
    CHECK(value(not_a_number) == "initial: nan is out of range; expected finite in float");
    CHECK(value(1e39) == "initial: 1e+39 is out of range; expected finite in float");
    CHECK(value(gs::uniform{.high = 1}) == "uniform.low: is missing; expected a number that is finite");
    CHECK(value(gs::uniform{.low = 1}) == "uniform.high: is missing; expected a number that is finite");
    CHECK(value(gs::uniform{-infinity, 1}) == "uniform.low: -inf is out of range; expected finite");
    CHECK(value(gs::uniform{2, 1}) == "uniform.low: 2 is out of range; expected at most high = 1");
    CHECK(value(gs::uniform{-1e308, 1e308}) == "uniform: low = -1e+308, high = 1e+308; expected a finite high - low");
    CHECK(value(gs::uniform{-1e39, 1}) == "uniform.low: -1e+39 is out of range; expected finite in float");
    CHECK(value(gs::uniform{1, 1e39}) == "uniform.high: 1e+39 is out of range; expected finite in float");
    CHECK(value(gs::normal{.deviation = 1}) == "normal.mean: is missing; expected a number that is finite");
    CHECK(value(gs::normal{.mean = 1}) == "normal.deviation: is missing; expected a number that is finite and >= 0");
    CHECK(value(gs::normal{0, -1}) == "normal.deviation: -1 is out of range; expected finite and >= 0");
    CHECK(value(gs::normal{infinity, 1}) == "normal.mean: inf is out of range; expected finite");
    CHECK(value(gs::normal{-1e39, 0}) ==
          "abs(normal.mean) + 6.77 * normal.deviation: 1e+39 is out of range; expected finite in float");
    value(gs::normal{0, 1e38});
    CHECK(refusal<gs::value_error>([] {
              check_initial<double>(gs::normal{0, 1e308}, 3, 4);
          }) == "abs(normal.mean) + 6.77 * normal.deviation: inf is out of range; expected finite in double");
    // Above the largest bfloat16, though not above the largest float.
    CHECK(refusal<gs::value_error>([] { check_initial<gs::bfloat16>(3.4e38, 3, 4); }) ==
          "initial: 3.4e+38 is out of range; expected finite in bfloat16");
    CHECK_NOTHROW(check_initial<float>(3.4e38, 3, 4));
    CHECK_NOTHROW(check_initial<float>(gs::uniform{-3e38, 3e38, std::numeric_limits<std::uint64_t>::max()}, 3, 4));
    CHECK_NOTHROW(check_initial<float>(gs::normal{0, 5e37}, 3, 4));
    CHECK_NOTHROW(check_initial<double>(gs::normal{-1e308, 1e307}, 3, 4));
}

TEST_CASE("containers that do not fit the table are refused", "[rows]") {
    auto const size = [](gs::initial_values const& initial, std::uint64_t rows, std::size_t width) {
        return refusal<gs::size_error>([&] { check_initial<float>(initial, rows, width); });
    };
    std::vector<float> const values(12);
    CHECK_NOTHROW(check_initial<float>(values, 3, 4));
    CHECK_NOTHROW(check_initial<float>(values, 12, 1));
    CHECK_NOTHROW(check_initial<float>(std::vector<float>{}, 0, 4));
    CHECK_NOTHROW(check_initial<float>(std::vector<float>{}, 0, 0));
    CHECK(size(values, 4, 4) == "initial: has 12 elements; expected 4 rows of width 4; give one for each element");
    CHECK(size(values, 2, 4) == "initial: has 12 elements; expected 2 rows of width 4; give one for each element");
    size(values, 3, 3);
    size(values, 2, 5); // 12 / 5 is 2
    size(values, 0, 4);
    size(values, 4, 0);
    size(std::vector<float>{}, 3, 4);
    size(values, std::uint64_t{1} << 62, 4);       // 2^64 elements are not 0,
    size(values, (std::uint64_t{1} << 62) + 3, 4); // nor 2^64 + 12 of them 12
    size(std::vector<float>{}, std::uint64_t{1} << 62, 4);

    CHECK(refusal<gs::value_error>([&] { check_initial<double>(values, 3, 4); }) ==
          "initial: holds float; expected double, which the table stores");
    CHECK(refusal<gs::value_error>([&] { check_initial<gs::bfloat16>(values, 3, 4); }) ==
          "initial: holds float; expected bfloat16, which the table stores");
    CHECK(refusal<gs::value_error>([] { check_initial<float>(std::vector<gs::bfloat16>(12), 3, 4); }) ==
          "initial: holds bfloat16; expected float, which the table stores");
    CHECK(refusal<gs::buffer_error>([] {
              check_initial<float>(std::span(static_cast<float const*>(nullptr), 12), 3, 4);
          }) == "initial: is null; expected 12 elements of memory");
}
