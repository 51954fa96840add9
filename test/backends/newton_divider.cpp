// Quotients and roots by multiply-adds have the divider's bits: the computed part of the proof in
// docs/explanation/numerics_proofs.md, comparisons over all that can be gone through, and rules on
// either.
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#if GRADSTEP_AVX512

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gs = gradstep;
namespace x86 = gs::detail::x86;

namespace {

constexpr std::uint32_t lanes = 16;
#if defined(GRADSTEP_SANITIZED)
constexpr std::uint32_t stride = 61; // of what is gone through
#else
constexpr std::uint32_t stride = 1;
#endif

struct with_newton_mode {
    explicit with_newton_mode(x86::newton_mode newton_mode) { x86::newton_mode_here = newton_mode; }
    ~with_newton_mode() { x86::newton_mode_here = before; }
    x86::newton_mode before = x86::newton_mode_here;
};

// In how many lanes the bits differ.
std::size_t differences(__m512 x, __m512 y) {
    return static_cast<std::size_t>(
        std::popcount(_mm512_cmpneq_epi32_mask(_mm512_castps_si512(x), _mm512_castps_si512(y))));
}
__m512 bits(std::uint32_t x) { return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(x))); }
__m512 from(std::uint32_t first) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first)),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
}

// Calls f(a pack of floats) with all floats within 2^-14 of `exact`, its estimates, and a few
// beyond.
template <class F> void for_each_estimate(double exact, F const& f) {
    auto const bits_of = [](double x) { return std::bit_cast<std::uint32_t>(static_cast<float>(x)); };
    std::uint32_t const first = bits_of(exact * (1 - 0x1p-14)), last = bits_of(exact * (1 + 0x1p-14));
    for (std::uint32_t i = first; i <= last; i += lanes) f(from(i));
}

// Quotients A / B of 24 bits each whose distance from a midpoint M of two floats is |c| / (2 B)
// ulp, A * 2^k = B * M + c, in packs of a and b in [1, 2), with the two floats that 1 / b may be
// taken for.
struct hard_quotients {
    alignas(64) std::array<float, lanes> a, b, below, above;
    std::size_t count = 0, all = 0;

    template <class F> void add(float x, float y, float low, float high, F const& f) {
        a[count] = x;
        b[count] = y;
        below[count] = low;
        above[count] = high;
        if (++count == lanes) {
            f(_mm512_load_ps(a.data()), _mm512_load_ps(b.data()), _mm512_load_ps(below.data()),
              _mm512_load_ps(above.data()));
            count = 0;
        }
    }
    template <class F> void each(F const& f) {
        for (std::uint32_t B = 1u << 23; B < 1u << 24; B += B < 0xffff00 ? stride : 1) {
            float const y = static_cast<float>(B) * 0x1p-23f;
            auto const low = static_cast<float>((1 - 0x1p-36) / y), high = static_cast<float>((1 + 0x1p-36) / y);
            int const twos = std::countr_zero(B);
            std::uint32_t inverse = B >> twos; // modulo 2^32, by Newton's steps from three bits
            for (int i = 0; i < 5; ++i) inverse *= 2 - (B >> twos) * inverse;
            for (int k : {24, 25})
                for (int c = -6; c <= 6; ++c) {
                    if (c == 0 || (static_cast<unsigned>(c) & ((1u << twos) - 1)) != 0) continue;
                    std::uint32_t const period = 1u << (k - twos);
                    auto const odd_c = static_cast<std::uint32_t>(-(c >> twos));
                    for (std::uint64_t M = odd_c * inverse & (period - 1); M < 1u << 25; M += period) {
                        std::uint64_t const A = (B * M + static_cast<std::uint64_t>(static_cast<std::int64_t>(c))) >> k;
                        if (M < 1u << 24 || M % 2 == 0 || A < 1u << 23 || A >= 1u << 24) continue;
                        ++all;
                        add(static_cast<float>(A) * 0x1p-23f, y, low, high, f);
                    }
                }
        }
        while (count != 0) add(1, 1, 1, 1, f);
    }
};

__m512 negated(__m512 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }
// In how many lanes a / b and -a / b, given an inverse of b, are not the exact quotient and its
// negative.
std::size_t wrong_quotients(__m512 a, __m512 b, __m512 inverse, __m512 exact) {
    return differences(x86::quotient(a, b, inverse), exact) +
           differences(x86::quotient(negated(a), b, inverse), negated(exact));
}

} // namespace

TEST_CASE("quotients near a midpoint are right from every estimate of 14 bits", "[backends][newton_divider]") {
    std::size_t wrong = 0, wrong_from_some = 0, need_the_greater = 0;
    hard_quotients hard;
    hard.each([&](__m512 a, __m512 b, __m512 below, __m512 above) {
        __m512 const exact = _mm512_div_ps(a, b);
        wrong += wrong_quotients(a, b, x86::reciprocal(b, _mm512_rcp14_ps(b)), exact);
        wrong_from_some += wrong_quotients(a, b, above, exact);
        if (wrong_quotients(a, b, below, exact) == 0) return;
        alignas(64) std::array<float, lanes> x, y, low;
        _mm512_store_ps(x.data(), a);
        _mm512_store_ps(y.data(), b);
        _mm512_store_ps(low.data(), below);
        for (std::size_t k = 0; k < lanes; ++k) {
            __m512 const ak = _mm512_set1_ps(x[k]), bk = _mm512_set1_ps(y[k]), quotient = _mm512_div_ps(ak, bk);
            if (wrong_quotients(ak, bk, _mm512_set1_ps(low[k]), quotient) == 0) continue;
            ++need_the_greater;
            for_each_estimate(1 / static_cast<double>(y[k]), [&](__m512 estimate) {
                wrong_from_some += wrong_quotients(ak, bk, x86::reciprocal(bk, estimate), quotient);
            });
        }
    });
    CHECK(wrong == 0);
    CHECK(wrong_from_some == 0);
    CHECK(need_the_greater == 24);
    if (stride == 1) CHECK(hard.all == 34'887'893);
    else CHECK(hard.all > 30'000'000 / stride);
}

TEST_CASE("roots near a midpoint are right from every estimate of 14 bits", "[backends][newton_divider]") {
    std::size_t wrong = 0, hard = 0;
    for (std::int64_t M = (1 << 24) + 1; M < 1 << 25; M += 2) // midpoints; a * 2^48 = M^2 + c
        for (int k : {25, 26})
            for (std::int64_t c = -41; c < 48; c += 8) { // all of -1 modulo 8
                std::int64_t const a = M * M + c;
                if ((a & ((std::int64_t(1) << k) - 1)) != 0 || a >> k < 1 << 23 || a >> k >= 1 << 24) continue;
                ++hard;
                auto const x = static_cast<float>(a >> k) * (k == 25 ? 0x1p-23f : 0x1p-22f);
                __m512 const ax = _mm512_set1_ps(x), exact = _mm512_sqrt_ps(ax);
                for_each_estimate(1 / std::sqrt(static_cast<double>(x)),
                                  [&](__m512 estimate) { wrong += differences(x86::root(ax, estimate), exact); });
            }
    CHECK(wrong == 0);
    CHECK(hard == 20);
}

TEST_CASE("every root is the divider's", "[backends][newton_divider]") {
    for (auto const mode : {gs::subnormals::keep, gs::subnormals::flush}) {
        gs::detail::flush_guard const guard(mode);
        std::size_t wrong = 0;
        for (std::uint64_t first = 0; first < std::uint64_t(1) << 32; first += lanes * stride) {
            __m512 const a = from(static_cast<std::uint32_t>(first));
            wrong += differences(x86::root(a), _mm512_sqrt_ps(a));
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("quotients are the divider's: numbers at random, and all ends", "[backends][newton_divider]") {
    auto const compare = [](__m512 a0, __m512 b0, __m512 a1, __m512 b1) {
        __m512 q0, q1;
        x86::quotients(a0, b0, a1, b1, q0, q1);
        return differences(q0, _mm512_div_ps(a0, b0)) + differences(q1, _mm512_div_ps(a1, b1));
    };
    SECTION("a thousand million at random") {
        __m512i state = _mm512_add_epi32(_mm512_castps_si512(from(1)), _mm512_set1_epi32(0x12345678));
        auto const next = [&] { // Marsaglia's xorshift
            state = _mm512_xor_si512(state, _mm512_slli_epi32(state, 13));
            state = _mm512_xor_si512(state, _mm512_srli_epi32(state, 17));
            return state = _mm512_xor_si512(state, _mm512_slli_epi32(state, 5));
        };
        // Some bits at random beside an exponent that differs by up to 2^shift from 1, and a sign
        // where it is one of either.
        auto const number = [&](int kept, int exponents, int sign = 0) {
            __m512i const r = next(), other = next(), one = _mm512_set1_epi32(x86::power_of_two(0));
            __m512i const low = _mm512_and_si512(r, _mm512_set1_epi32(kept));
            __m512i const exponent = _mm512_and_si512(_mm512_srli_epi32(other, 3), _mm512_set1_epi32(exponents));
            __m512i const signs = _mm512_and_si512(other, _mm512_set1_epi32(sign));
            return _mm512_castsi512_ps(
                _mm512_add_epi32(_mm512_add_epi32(one, low), _mm512_or_si512(_mm512_slli_epi32(exponent, 23), signs)));
        };
        gs::detail::flush_guard const guard(gs::subnormals::flush);
        std::size_t wrong = 0;
        constexpr int all = 0x7fffff, either = std::numeric_limits<int>::min();
        for (std::uint32_t i = 0; i < 16'000'000 / stride; ++i) {
            wrong += compare(number(all, 0, either), number(all, 0), number(all, 31, either), number(all, 31));
            // Divisors with few bits set, or nearly all: quotients with long runs of equal bits.
            __m512 const few = number(0x700007, 0),
                         many = _mm512_castsi512_ps(
                             _mm512_or_si512(_mm512_castps_si512(number(0x00ffff, 0)), _mm512_set1_epi32(0x7f0000)));
            wrong += compare(number(all, 0, either), few, number(all, 0, either), many);
        }
        CHECK(wrong == 0);
    }
    SECTION("all exponents and signs") {
        constexpr std::array<std::uint32_t, 8> mantissas{0, 1, 2, 0x2aaaaa, 0x400000, 0x555555, 0x7ffffe, 0x7fffff};
        auto const number = [&](std::uint32_t i) { return bits(i / 8 << 23 | mantissas[i % 8]); }; // i < 512 * 8
        alignas(64) std::array<std::uint32_t, lanes> of{};
        for (auto const mode : {gs::subnormals::keep, gs::subnormals::flush}) {
            gs::detail::flush_guard const guard(mode);
            std::size_t wrong = 0;
            for (std::uint32_t i = 0; i < 4096; i += stride)
                for (std::uint32_t k = 0; k < 4096; k += 2 * lanes) {
                    for (std::uint32_t l = 0; l < lanes; ++l) of[l] = (k + l) / 8 << 23 | mantissas[l % 8];
                    __m512 const x = _mm512_load_ps(of.data());
                    for (std::uint32_t l = 0; l < lanes; ++l) of[l] = (k + lanes + l) / 8 << 23 | mantissas[l % 8];
                    __m512 const y = _mm512_load_ps(of.data());
                    wrong += compare(number(i), x, number(i), y) + compare(x, number(i), y, number(i));
                    wrong += compare(number(i), x, _mm512_set1_ps(1), _mm512_set1_ps(3)); // each pack by itself, too
                    wrong += compare(_mm512_set1_ps(1), _mm512_set1_ps(3), x, number(i));
                }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("quotients and roots by multiply-adds raise what the divider raises", "[backends][newton_divider]") {
    float const infinite = std::numeric_limits<float>::infinity(), largest = std::numeric_limits<float>::max();
    auto const raised = [](auto const& f) {
        std::feclearexcept(FE_ALL_EXCEPT);
        f();
        return std::fetestexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
    };
    __m512 volatile sink; // what is computed must be, before the flags are looked at
    auto const quotient = [&](float a, float b) {
        float const volatile x = a, y = b;
        return raised([&] {
            __m512 q0, q1;
            x86::quotients(_mm512_set1_ps(x), _mm512_set1_ps(y), _mm512_set1_ps(1), _mm512_set1_ps(1), q0, q1);
            sink = q0;
        });
    };
    auto const root = [&](float a) {
        float const volatile x = a;
        return raised([&] { sink = x86::root(_mm512_set1_ps(x)); });
    };
    CHECK(quotient(1, infinite) == 0);
    CHECK(quotient(0, infinite) == 0);
    CHECK(quotient(infinite, 2) == 0);
    CHECK(quotient(largest, largest) == 0);
    CHECK(quotient(1e-40f, 1e30f) == 0);
    CHECK(quotient(1, 0) == FE_DIVBYZERO);
    CHECK(quotient(0, 0) == FE_INVALID);
    CHECK(quotient(largest, 0.5f) == FE_OVERFLOW);
    CHECK(root(0) == 0);
    CHECK(root(infinite) == 0);
    CHECK(root(largest) == 0);
    CHECK(root(-1) == FE_INVALID);
    std::feclearexcept(FE_ALL_EXCEPT);
}

namespace {

// Parameter and state after some steps, of which each element has its own gradients: ordinary ones,
// zeros, numbers from the smallest to the largest, infinities and NaN.
template <class Element = float, class Rule, class Backend>
std::vector<std::vector<float>> trained(Rule const& rule, Backend const& backend, std::size_t n) {
    auto optimizer = gs::make_updater<Element>(rule, gs::constant{0.01}, backend);
    using storage = typename gs::element_traits<Element>::storage;
    constexpr std::size_t slots = decltype(optimizer)::slots;
    std::vector<std::vector<float>> all(slots + 1, std::vector<float>(n));
    std::vector<storage> w(n), g(n);
    for (std::size_t i = 0; i < n; ++i) w[i] = static_cast<storage>(std::sin(static_cast<float>(i % 9973)));
    auto const with = [&]<std::size_t... I>(std::index_sequence<I...>) {
        optimizer.initialize(w, all[I + 1]...);
        for (int step = 0; step < 4; ++step) {
            for (std::size_t i = 0; i < n; ++i) {
                auto const k = static_cast<int>(i % 4099);
                float x = std::cos(static_cast<float>(k + step));
                x = k % 7 == 0 ? 0 : k < 3000 ? x : std::ldexp(x, k % 277 - 149);
                if (k == 4001) x = std::numeric_limits<float>::infinity();
                if (k == 4003) x = std::numeric_limits<float>::quiet_NaN();
                g[i] = static_cast<storage>(x);
            }
            optimizer.next_step()(w, g, all[I + 1]...);
        }
    };
    with(std::make_index_sequence<slots>{});
    std::transform(w.begin(), w.end(), all[0].begin(), [](storage x) { return static_cast<float>(x); });
    return all;
}

// Whether the first n elements of all have the same bits, or are NaN in both.
bool same(std::vector<std::vector<float>> const& x, std::vector<std::vector<float>> const& y, std::size_t n) {
    bool equal = x.size() == y.size();
    for (std::size_t k = 0; k < x.size() && equal; ++k)
        for (std::size_t i = 0; i < n && equal; ++i)
            equal = std::bit_cast<std::uint32_t>(x[k][i]) == std::bit_cast<std::uint32_t>(y[k][i]) ||
                    (std::isnan(x[k][i]) && std::isnan(y[k][i]));
    return equal;
}

} // namespace

TEMPLATE_TEST_CASE("a step has the same bits whatever is taken from the divider", "[backends][newton_divider]",
                   gs::adagrad, gs::two_buffer_adagrad, gs::decayed_adagrad, gs::proximal_adagrad, gs::adadelta,
                   gs::rmsprop, gs::centered_rmsprop, gs::momentum_rmsprop, gs::adam, gs::nesterov_adam, gs::nadam,
                   gs::radam, gs::adabelief, gs::adan, gs::laprop, gs::ademamix, gs::adopt, gs::qhadam,
                   gs::optimistic_adam, gs::adabound, gs::adapnm, gs::ftml, gs::ftrl, gs::constant_rate_ftrl) {
    static_assert(gs::detail::waits_for_divider<
                  gs::update_kernel<float, TestType, gs::none, gs::detail::default_gradient<float>>>);
    constexpr std::size_t n = 2 * 4099 + 5;
    auto const flushed = trained(TestType{}, gs::serial_backend{}, n);
    auto const kept = [] {
        with_newton_mode const set(x86::newton_mode::none);
        return trained(TestType{}, gs::simd_backend{gs::subnormals::keep}, n);
    }();
    for (auto const newton_mode : {x86::newton_mode::none, x86::newton_mode::quotients, x86::newton_mode::roots}) {
        with_newton_mode const set(newton_mode);
        CHECK(same(trained(TestType{}, gs::simd_backend{}, n), flushed, n));
        CHECK(same(trained(TestType{}, gs::simd_backend{gs::subnormals::keep}, n), kept, n));
    }
}

TEMPLATE_TEST_CASE("so has a step of weights in 16 bits, with a master copy, rounded at random or averaged",
                   "[backends][newton_divider]", gs::bfloat16, gs::float16, gs::mixed<gs::bfloat16>,
                   gs::stochastic<gs::bfloat16>) {
    constexpr std::size_t n = 4099 + 5;
    gs::averaged const rule{gs::rmsprop{}, gs::ema{0.9}};
    static_assert(gs::detail::newton_roots_of<decltype(rule)> == gs::rmsprop::newton_roots);
    auto const reference = trained<TestType>(rule, gs::serial_backend{}, n);
    for (auto const newton_mode : {x86::newton_mode::none, x86::newton_mode::quotients, x86::newton_mode::roots}) {
        with_newton_mode const set(newton_mode);
        CHECK(same(trained<TestType>(rule, gs::simd_backend{}, n), reference, n));
    }
}

namespace {

// w / sqrt(g), and nothing else that rounds.
template <int roots> struct quotient_by_root {
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    static constexpr int newton_roots = roots;
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const&, V& w, V g, state<V>&) {
        w = gs::math::div(w, gs::math::sqrt(g));
    }
};

// Whether the divider rounds in such a step: it says so by a flag, which multiply-adds do not
// raise.
template <class Rule>
bool divider_rounds(x86::newton_mode newton_mode, std::vector<float> w, std::vector<float> const& g) {
    with_newton_mode const set(newton_mode);
    // Where subnormals are flushed the caller's flags are put back.
    auto optimizer = gs::make_updater<float>(Rule{}, gs::constant{1}, gs::simd_backend{gs::subnormals::keep});
    auto const step = optimizer.next_step();
    std::feclearexcept(FE_ALL_EXCEPT);
    step(w, g);
    bool const rounds = std::fetestexcept(FE_INEXACT) != 0;
    std::feclearexcept(FE_ALL_EXCEPT);
    return rounds;
}

} // namespace

TEMPLATE_TEST_CASE("a step takes from the divider what pays, and of four registers as many roots as the rule says",
                   "[backends][newton_divider]", quotient_by_root<0>, quotient_by_root<1>, quotient_by_root<2>) {
    constexpr int registers = 4, size = lanes;
    constexpr std::size_t n = registers * lanes;
    // Rounded are 1 / 3 and the root of 3; not 0 / x, and the roots of 4 and 9.
    std::vector<float> const zeros(n), ones(n, 1), nines(n, 9);
    for (auto const newton_mode : {x86::newton_mode::none, x86::newton_mode::quotients, x86::newton_mode::roots}) {
        CHECK(divider_rounds<TestType>(newton_mode, ones, nines) == (newton_mode != x86::newton_mode::quotients));
        for (int k = 0; k < registers; ++k) {
            std::vector<float> g(n, 4);
            std::fill_n(g.begin() + k * size, size, 3.0f);
            bool const uses_newton =
                newton_mode == x86::newton_mode::roots && k % 2 == 0 && k / 2 < TestType::newton_roots;
            CHECK(divider_rounds<TestType>(newton_mode, zeros, g) == !uses_newton);
        }
    }
}

TEST_CASE("what pays is known of processors by maker, family and model", "[backends][newton_divider]") {
    auto const on_intel = [](unsigned version) { return x86::newton_mode_of(signature_INTEL_ebx, version); };
    auto const on_amd = [](unsigned version) { return x86::newton_mode_of(signature_AMD_ebx, version); };
    CHECK(on_intel(0x806f8) == x86::newton_mode::quotients); // Sapphire Rapids
    CHECK(on_intel(0xc06f2) == x86::newton_mode::quotients); // Emerald Rapids
    CHECK(on_intel(0xa06d1) == x86::newton_mode::quotients); // Granite Rapids
    CHECK(on_intel(0x50657) == x86::newton_mode::none);      // Cascade Lake
    CHECK(on_intel(0x606a6) == x86::newton_mode::none);      // Ice Lake
    CHECK(on_intel(0x806c1) == x86::newton_mode::none);      // Tiger Lake
    CHECK(on_amd(0xa10f11) == x86::newton_mode::roots);      // Zen 4
    CHECK(on_amd(0xb00f21) == x86::newton_mode::none);       // Zen 5
    CHECK(x86::newton_mode_of(signature_CENTAUR_ebx, 0xa10f11) == x86::newton_mode::none);
}

TEST_CASE("what pays on this processor is looked up by the first step, and set by tests",
          "[backends][newton_divider]") {
    auto const after_a_step = [](x86::newton_mode before) {
        with_newton_mode const set(before);
        trained(gs::adam{}, gs::simd_backend{}, 1000);
        return x86::newton_mode_here.load();
    };
    CHECK(after_a_step(x86::newton_mode::not_looked_up) != x86::newton_mode::not_looked_up);
    CHECK(after_a_step(x86::newton_mode::quotients) == x86::newton_mode::quotients);
    CHECK(after_a_step(x86::newton_mode::roots) == x86::newton_mode::roots);
}

TEST_CASE("a self-test chooses what is fastest, when it is asked for", "[backends][newton_divider]") {
    CHECK(x86::fastest_of(1000, 900, 940) == x86::newton_mode::quotients);
    CHECK(x86::fastest_of(1000, 940, 900) == x86::newton_mode::roots);
    CHECK(x86::fastest_of(1000, 950, 1200) == x86::newton_mode::quotients);
    CHECK(x86::fastest_of(1000, 951, 960) == x86::newton_mode::none);

    with_newton_mode const set(x86::newton_mode::not_looked_up);
    std::map<x86::newton_mode, std::string> const names = {{x86::newton_mode::none, "divider"},
                                                           {x86::newton_mode::quotients, "quotients by multiply-adds"},
                                                           {x86::newton_mode::roots, "roots by multiply-adds"}};
    std::string const chosen = gs::tune();
    CHECK(names.at(x86::newton_mode_here) == chosen);

    ::setenv("GRADSTEP_TUNE", "1", 1);
    CHECK(names.count(x86::newton_mode_of_processor()) == 1);
    ::unsetenv("GRADSTEP_TUNE");
}

TEST_CASE("a step in memory has the bits of a step in the caches", "[backends][newton_divider]") {
    constexpr std::size_t in_memory = 2'000'000,
                          in_cache = 10 * 4099; // 28 bytes an element, where 32 MiB are the limit
    auto const large = trained(gs::adam{}, gs::simd_backend{}, in_memory);
    for (auto const newton_mode : {x86::newton_mode::none, x86::newton_mode::quotients, x86::newton_mode::roots}) {
        with_newton_mode const set(newton_mode);
        CHECK(same(trained(gs::adam{}, gs::simd_backend{}, in_cache), large, in_cache));
    }
}

#endif
