// math::cbrt against the C library's root in a wider type, in every pack, and its bits against the
// bits of other builds.
#include <support/catch.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gradstep/backends/simd_pack.hpp>
#include <gradstep/number/cube_root.hpp>

namespace gs = gradstep;

namespace {

template <class T> using pack_of = gs::simd<T, gs::detail::best_arch>;
template <class T> using bits_of = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

// The roots of a register of numbers, in its lanes, in two registers side by side, and one by one:
// the same bits.
template <class T> constexpr std::size_t lanes = gs::pack_traits<pack_of<T>>::size;
template <class T> using numbers = std::array<T, lanes<T>>;
template <class T> numbers<T> roots_of(numbers<T> const& x, bool& same) {
    using V = pack_of<T>;
    using two = gs::lanes<V, 2>;
    numbers<T> roots;
    gs::pack_traits<V>::store(roots.data(), gs::math::cbrt(gs::pack_traits<V>::load(x.data(), gs::all_lanes{})),
                              gs::all_lanes{});
    two pair;
    pair.value[0] = V(T(1));
    pair.value[1] = gs::pack_traits<V>::load(x.data(), gs::all_lanes{});
    numbers<T> second;
    gs::pack_traits<V>::store(second.data(), gs::math::cbrt(pair).value[1], gs::all_lanes{});
    for (std::size_t k = 0; k != lanes<T>; ++k) {
        auto const bits = std::bit_cast<bits_of<T>>(roots[k]);
        same = same && bits == std::bit_cast<bits_of<T>>(gs::math::cbrt(x[k])) &&
               bits == std::bit_cast<bits_of<T>>(second[k]);
    }
    return roots;
}

// What is found over many numbers: the worst errors in ulp, apart for roots just below a power of
// two, where r (see cbrt) is above it; and a sum that every bit of every root changes.
struct findings {
    long double worst = 0, worst_below_power = 0;
    std::uint64_t sum = 0;
    bool same = true;

    template <class T, class Exact> void add(numbers<T> const& x, Exact const& exact_root) {
        auto const roots = roots_of(x, same);
        for (std::size_t k = 0; k != lanes<T>; ++k) {
            auto const exact = exact_root(x[k]);
            int exponent = 0;
            bool const is_below_power = std::frexp(std::abs(exact), &exponent) > 1 - 0x1p-10;
            auto const ulp = std::ldexp(static_cast<decltype(exact)>(1), exponent - std::numeric_limits<T>::digits);
            auto& most = is_below_power ? worst_below_power : worst;
            most = std::max<long double>(most, std::abs(roots[k] - exact) / ulp);
            sum = sum * 6364136223846793005u + std::bit_cast<bits_of<T>>(roots[k]);
        }
    }
    // The last sum is rounded by half an ulp, and a third of half an ulp of r is added: of a whole
    // one below a power of two. Errors of t and the roundings of the quotient (r - t) / (2 t + r),
    // which is below 2^-11, are less than a hundredth.
    void check() const {
        CAPTURE(worst, worst_below_power);
        CHECK(same);
        CHECK(worst < 2.0L / 3 + 0.01L);
        CHECK(worst_below_power < 5.0L / 6 + 0.01L);
        CHECK(worst > 0.6L); // or nothing was measured
    }
};

} // namespace

TEST_CASE("cbrt of floats is within its bound, with the same bits in every pack and build", "[cube_root]") {
    // The roots of all floats are the roots of [1, 8), scaled by a power of two.
    constexpr std::uint32_t one = 0x3f800000, count = 3u << 23;
#if defined(GRADSTEP_SANITIZED)
    constexpr std::uint32_t stride = 64; // some of them: the sum is checked in other builds
#else
    constexpr std::uint32_t stride = 1;
#endif
    findings found;
    for (std::uint32_t i = 0; i < count; i += stride * lanes<float>) {
        numbers<float> x;
        for (std::uint32_t k = 0; k != lanes<float>; ++k) x[k] = std::bit_cast<float>(one + i + k);
        found.add(x, [](float a) { return std::cbrt(static_cast<double>(a)); });
    }
    found.check();
    if (stride == 1) CHECK(found.sum == 0x3e03e16699644ebf);
}

TEST_CASE("cbrt of doubles is within its bound, with the same bits in every pack and build", "[cube_root]") {
    findings found;
    std::uint64_t state = 1;
    auto const next = [&] {
        state = state * 6364136223846793005u + 1442695040888963407u;
        std::uint64_t const exponent = state % 2001 + 23, digits = state >> 12, small = digits % 1'000'000'000;
        // Every fifth just below a power of 8, whose root is below a power of two.
        std::uint64_t const below = (exponent / 3 * 3 << 52) - 1 - small;
        return std::bit_cast<double>(state % 5 == 0 ? below : exponent << 52 | digits);
    };
    for (int i = 0; i != 400'000; i += static_cast<int>(lanes<double>)) {
        numbers<double> x;
        for (double& value : x) value = next();
        found.add(x, [](double a) { return std::cbrt(static_cast<long double>(a)); });
    }
    found.check();
    CHECK(found.worst_below_power > 0.4L);
    CHECK(found.sum == 0x6f8d5bc9835835f4);
}

TEST_CASE("cbrt keeps signs, zeros, infinities and NaN, and cubes have exact roots", "[cube_root]") {
    auto const check = []<class T>(T) {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        bool same = true;
        auto const root = [&](T x) {
            numbers<T> all;
            all.fill(x);
            return roots_of(all, same)[0];
        };
        CHECK(std::bit_cast<bits_of<T>>(root(T(0))) == 0);
        CHECK((root(T(-0.0)) == 0 && std::signbit(root(T(-0.0)))));
        CHECK(root(infinity) == infinity);
        CHECK(root(-infinity) == -infinity);
        CHECK(root(-T(27)) == -T(3));
        for (int n = 1; n != 200; ++n) {
            T const value = static_cast<T>(n), cube = value * value * value;
            CHECK(root(cube) == value);
            CHECK(root(-std::ldexp(cube, -60)) == -std::ldexp(value, -20));
        }
        // The smallest and the largest numbers, which a fourth power and a multiple leave.
        using limits = std::numeric_limits<T>;
        for (T const x : {limits::denorm_min(), limits::min(), limits::min() / 3, limits::max(), limits::max() / 3}) {
            long double const exact = std::cbrt(static_cast<long double>(x));
            CHECK(std::abs(root(x) - exact) <= exact * limits::epsilon());
        }
        CHECK(same); // of NaN, only that it stays one
        CHECK(std::isnan(root(limits::quiet_NaN())));
    };
    check(float());
    check(double());
}
