// Stochastic rounding: right on average, independent, and a pure function of (seed, step, tensor,
// element).
//
// Random bits are fixed by their seeds, so a test here passes always or never. Its bounds are those
// that truly random bits would break once in a million (for each number that is compared).
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

namespace {

#if defined(GRADSTEP_SANITIZED) || !defined(__OPTIMIZE__)
constexpr std::size_t draws = 200'000;
#else
constexpr std::size_t draws = 10'000'000;
#endif
constexpr double normal_bound = 4.892;                                  // |z| of one number
constexpr double chi_square_3_bound = 30.7, chi_square_255_bound = 378; // of 3 and of 255 degrees of freedom

template <class Storage> auto optimizer_of(double rate) {
    return gs::make_updater<gs::stochastic<Storage>>(gs::sgd{}, gs::constant{rate});
}
template <class Storage, class Backend> auto optimizer_of(double rate, Backend const& backend) {
    return gs::make_updater<gs::stochastic<Storage>>(gs::sgd{}, gs::constant{rate}, backend);
}

// The neighbour of x away from zero.
template <class Storage> Storage next(Storage x) {
    ++x.bits;
    return x;
}
template <class Storage> double value(Storage x) { return static_cast<double>(static_cast<float>(x)); }
template <class Storage> std::vector<Storage> copies(std::size_t n, float x) {
    return std::vector<Storage>(n, Storage(x));
}

// How many of `n` elements at w round away from zero, when `fraction` of the distance to that
// neighbour is added: over several steps of one tensor. No other value may occur.
template <class Storage> double count_up(Storage w, double fraction, std::size_t n, std::uint64_t seed) {
    Storage const up = next(w);
    double const distance = value(up) - value(w);
    std::size_t const length = 100'000;
    // -g is the power of two below the distance: its product with the rate is exact.
    auto const scale =
        static_cast<float>(std::copysign(std::exp2(std::floor(std::log2(std::abs(distance)))), distance));
    auto optimizer = optimizer_of<Storage>(fraction * distance / static_cast<double>(scale));
    std::vector<Storage> x;
    std::vector<Storage> const g = copies<Storage>(length, -scale);
    REQUIRE(value(g[0]) == -static_cast<double>(scale));
    std::size_t ups = 0, others = 0;
    for (std::size_t done = 0; done < n; done += length) {
        x.assign(length, w);
        optimizer.next_step({.seed = seed})(x, g);
        for (Storage const y : x) {
            ups += y.bits == up.bits;
            others += y.bits != up.bits && y.bits != w.bits;
        }
    }
    CHECK(others == 0);
    return static_cast<double>(ups);
}

// Which elements of a tensor of ones round up, when half of the distance between neighbours is
// added: a fair coin each.
template <class Storage>
std::vector<bool> coins(std::size_t n, std::uint64_t seed, std::int64_t step, std::optional<std::uint64_t> id) {
    double const half = std::is_same_v<Storage, gs::bfloat16> ? 0x1p-8 : 0x1p-11;
    auto optimizer = optimizer_of<Storage>(half);
    auto w = copies<Storage>(n, 1);
    auto const g = copies<Storage>(n, -1);
    std::vector<gs::slice<decltype(optimizer)>> model{{w, g}};
    model[0].id = id;
    optimizer.seek({.step = step - 1});
    optimizer.next_step({.seed = seed})(model);
    std::vector<bool> out;
    for (Storage const x : w) out.push_back(value(x) != 1);
    return out;
}

// The chi-square of how often the four results of two fair coins come, against a quarter each: it
// looks at the frequency of both and at their dependence. The last is also the correlation times
// the root of n.
struct pair_of_coins {
    double chi_square, correlation;
};
pair_of_coins joint(std::vector<bool> const& a, std::vector<bool> const& b, std::size_t shift = 0) {
    std::array<std::size_t, 4> count{};
    std::size_t const n = a.size() - shift;
    for (std::size_t i = 0; i < n; ++i) ++count[2u * a[i] + b[i + shift]];
    double const expected = static_cast<double>(n) / 4;
    pair_of_coins out{0, 0};
    for (std::size_t k = 0; k < 4; ++k) {
        double const off = static_cast<double>(count[k]) - expected;
        out.chi_square += off * off / expected;
        out.correlation += (k == 0 || k == 3 ? 1 : -1) * static_cast<double>(count[k]);
    }
    out.correlation /= std::sqrt(static_cast<double>(n));
    return out;
}

} // namespace

TEMPLATE_TEST_CASE("stochastic rounding is right on average and takes one of the two neighbours", "[core][rounding]",
                   gs::bfloat16, gs::float16) {
    constexpr bool is_half = std::is_same_v<TestType, gs::float16>;
    float const below_largest = is_half ? 65472.0f : std::bit_cast<float>(0x7f7e'0000u);
    float const least = is_half ? 0x1p-24f : 0x1p-100f; // subnormal in float16
    std::uint64_t seed = 1;
    for (float const w : {1.0f, -1.0f, 0x1.8p-3f, -640.0f, is_half ? 0x1p-14f : 0x1p-80f, 5 * least, -least,
                          below_largest, -below_largest})
        for (double const fraction : {0x1p-8, 0.1875, 0.5, 0.75, 1 - 0x1p-7}) {
            double const n = static_cast<double>(draws);
            double const ups = count_up(TestType(w), fraction, draws, ++seed);
            double const z = (ups - n * fraction) / std::sqrt(n * fraction * (1 - fraction));
            CAPTURE(w, fraction, ups);
            CHECK(std::abs(z) < normal_bound);
        }
}

TEMPLATE_TEST_CASE("stochastic rounding of any numbers is right on average", "[core][rounding]", gs::bfloat16,
                   gs::float16) {
    std::size_t const n = 100'000;
    auto optimizer = optimizer_of<TestType>(0x1p-3 + 0x1p-9);
    auto const before = numbers<TestType>(n, 5), g = numbers<TestType>(n, 6);
    double sum = 0, variance = 0, squares = 0, count = 0;
    std::size_t outside = 0;
    while (count < static_cast<double>(draws)) {
        auto w = before;
        optimizer.next_step({.seed = 3})(w, g);
        for (std::size_t i = 0; i < n; ++i) {
            double const x = std::fma(-optimizer.schedule().rate, value(g[i]), value(before[i]));
            auto const single = static_cast<double>(static_cast<float>(x)); // what the rule gives
            TestType low(static_cast<float>(single)); // the neighbour towards zero, then the other
            if (std::abs(value(low)) > std::abs(single)) --low.bits;
            double const below = value(low), distance = value(next(low)) - below, p = (single - below) / distance;
            double const up = (value(w[i]) - below) / distance;
            outside += up != 0 && up != 1;
            sum += up - p;
            variance += p * (1 - p);
            squares += (up - p) * (up - p);
            ++count;
        }
    }
    CHECK(outside == 0);
    CHECK(std::abs(sum) < normal_bound * std::sqrt(variance));
    // The variance too: n values in [0, 1], each of which varies by at most 1/4 around its mean.
    CHECK(std::abs(squares - variance) < normal_bound * std::sqrt(count) / 4);
}

TEMPLATE_TEST_CASE("numbers that the storage has are kept", "[core][rounding]", gs::bfloat16, gs::float16) {
    auto optimizer = optimizer_of<TestType>(0);
    std::vector<TestType> w;
    for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
        TestType x;
        x.bits = static_cast<std::uint16_t>(bits);
        bool const flushed = std::fpclassify(static_cast<float>(x)) == FP_SUBNORMAL;
        if (!flushed && bits != 0x8000) w.push_back(x);
    }
    std::vector<TestType> const g(w.size());
    auto stored = w;
    optimizer.next_step()(stored, g);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        auto const x = static_cast<float>(w[i]), y = static_cast<float>(stored[i]);
        wrong += std::isnan(x) ? !std::isnan(y) : stored[i].bits != w[i].bits;
    }
    CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("NaN and infinity stay, and what rounds beyond the largest number is infinite", "[core][rounding]",
                   gs::bfloat16, gs::float16) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    auto optimizer = optimizer_of<TestType>(1);
    std::vector<TestType> w, g;
    for (int k = 0; k < 50; ++k)
        for (float const x : {nan, infinity, -infinity}) {
            w.push_back(TestType(x));
            g.push_back(TestType(1.0f));
            w.push_back(TestType(1.0f));
            g.push_back(TestType(x));
        }
    optimizer.next_step()(w, g);
    for (std::size_t i = 0; i < w.size(); i += 6) {
        CHECK((std::isnan(value(w[i])) && std::isnan(value(w[i + 1]))));
        CHECK((value(w[i + 2]) == infinity && value(w[i + 3]) == -infinity));
        CHECK((value(w[i + 4]) == -infinity && value(w[i + 5]) == infinity));
    }
    std::vector<TestType> far(40, TestType(infinity));
    for (TestType& x : far) --x.bits; // the largest
    auto const huge = far;
    for (TestType const x : huge) REQUIRE(std::isfinite(value(x)));
    std::vector<TestType> away = huge;
    for (TestType& x : away) x.bits |= 0x8000;
    optimizer.next_step()(far, away);
    for (TestType const x : far) CHECK(value(x) == infinity);
}

TEMPLATE_TEST_CASE("what nearest keeps at the largest number, stochastic rounding keeps", "[core][rounding]",
                   gs::bfloat16, gs::float16) {
    TestType largest(std::numeric_limits<float>::infinity());
    --largest.bits;
    TestType below = largest;
    --below.bits;
    double const distance = value(largest) - value(below);
    for (double const sign : {1.0, -1.0})
        for (double const fraction : {0x1p-7, 0.25, 0.5 - 0x1p-6, 0.5, 0.75}) {
            CAPTURE(sign, fraction);
            // w - rate * g, of the largest number and a power of two below the distance: their sum
            // is a float.
            auto optimizer = optimizer_of<TestType>(fraction);
            auto const g = copies<TestType>(100'000, static_cast<float>(-sign * distance));
            auto w = copies<TestType>(g.size(), static_cast<float>(sign * value(largest)));
            optimizer.next_step({.seed = 5})(w, g);
            double const expected = fraction < 0.5 ? value(largest) : std::numeric_limits<double>::infinity();
            CHECK(std::ranges::all_of(w, [&](TestType x) { return value(x) == sign * expected; }));
        }
}

TEMPLATE_TEST_CASE("updates too small for the storage are not lost on average", "[core][rounding]", gs::bfloat16,
                   gs::float16) {
    double const distance = value(next(TestType(1.0f))) - 1;
    int const steps = 500;
    double const p = 0.01;
    std::size_t const n = draws / 1000;
    auto nearest = gs::make_updater<TestType>(gs::sgd{}, gs::constant{p * distance});
    auto optimizer = optimizer_of<TestType>(p * distance);
    auto a = copies<TestType>(n, 1), b = a;
    auto const g = copies<TestType>(n, -1);
    for (int k = 0; k < steps; ++k) {
        nearest.next_step()(a, g);
        optimizer.next_step({.seed = 7})(b, g);
    }
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
        CHECK(value(a[i]) == 1);
        sum += (value(b[i]) - 1) / distance;
    }
    // Every step of every element is a coin of its own; that the rate is rounded to float moves the
    // mean by 2^-24 of it, and that 1 + p * distance is, by 2^-24 / distance a step.
    double const trials = static_cast<double>(n) * steps, drift = trials * 0x1p-24 / distance;
    CHECK(std::abs(sum - trials * p) < normal_bound * std::sqrt(trials * p * (1 - p)) + drift);
}

TEMPLATE_TEST_CASE("neither split, memory, threads nor backend change the bits", "[core][rounding][threads]",
                   gs::bfloat16, gs::float16) {
    std::size_t const n = 300'011; // three parts and more
    auto const initial = numbers<TestType>(n, 1), gradient = numbers<TestType>(n, 2);
    double const rate = 0.01;
    auto const run = [&](auto const& backend) {
        auto optimizer = optimizer_of<TestType>(rate, backend);
        auto w = initial;
        for (int k = 0; k < 3; ++k) optimizer.next_step({.seed = 9})(w, gradient);
        return w;
    };
    auto const wanted = run(gs::serial_backend{});
    CHECK(same_bits(run(gs::simd_backend{}), wanted));
    for (std::size_t const threads : thread_counts({1, 2, 3})) {
        gs::thread_pool pool(threads);
        CHECK(same_bits(run(gs::simd_backend{pool}), wanted));
    }

    auto optimizer = optimizer_of<TestType>(rate);
    std::vector<TestType> memory(n + 64);
    auto const same_for = [&](std::size_t length, std::size_t offset) {
        auto const w = std::span(memory).subspan(offset, length);
        std::copy_n(initial.begin(), length, w.begin());
        optimizer.seek({});
        for (int k = 0; k < 3; ++k) optimizer.next_step({.seed = 9})(w, std::span(gradient).first(length));
        return same_bits(std::vector<TestType>(w.begin(), w.end()),
                         std::vector<TestType>(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(length)));
    };
    for (std::size_t length = 0; length < 70; ++length) CHECK(same_for(length, 0));
    for (std::size_t offset = 0; offset < 33; ++offset) CHECK(same_for(1000, offset));

    // A call that is split at every element.
    gs::single<gs::update_kernel<gs::stochastic<TestType>, gs::sgd, gs::none, gs::detail::plain_gradient<TestType>>>
        batch{{gs::sgd{}.prepare<float>({1, rate}), {}, memory.data(), {gradient.data()}, {}, nullptr}, 101, 6};
    batch.kernel.rounding = gs::detail::element_words::of(9, 1, 0);
    auto whole = std::vector<TestType>(initial.begin(), initial.begin() + 101);
    optimizer.seek({});
    optimizer.next_step({.seed = 9})(whole, std::span(gradient).first(101));
    std::size_t different = 0;
    for (std::size_t cut = 0; cut <= 101; ++cut) {
        std::copy_n(initial.begin(), 101, memory.begin());
        gs::simd_backend<> const simd;
        simd.run_part(batch, cut, 101);
        simd.run_part(batch, 0, cut);
        different += !same_bits(std::vector<TestType>(memory.begin(), memory.begin() + 101), whole);
    }
    CHECK(different == 0);
}

TEST_CASE("a tensor rounds alike in a call of its own and in one of many", "[core][rounding]") {
    auto optimizer = optimizer_of<gs::bfloat16>(0.01);
    using slice = gs::slice<decltype(optimizer)>;
    std::vector<std::size_t> const sizes{33, 0, 1000, 33};
    std::vector<std::vector<gs::bfloat16>> initial, gradient;
    for (std::size_t const n : sizes) {
        initial.push_back(numbers<gs::bfloat16>(n, static_cast<std::uint32_t>(n)));
        gradient.push_back(numbers<gs::bfloat16>(n, 99));
    }
    auto const step = optimizer.next_step({.seed = 5});
    auto const run = [&](std::vector<std::optional<std::uint64_t>> const& ids) {
        auto w = initial;
        std::vector<slice> model;
        for (std::size_t k = 0; k < sizes.size(); ++k) {
            model.emplace_back(w[k], gradient[k]);
            model[k].id = ids[k];
        }
        step(model);
        return w;
    };
    auto const unnamed = run({{}, {}, {}, {}}), named = run({0, 1, 2, 3}), other = run({0, 7, 1'000'000'000'000, 3});
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        CAPTURE(k);
        CHECK(same_bits(unnamed[k], named[k])); // left out, an id is the position
        CHECK(same_bits(other[k], named[k]) == (k != 2));
    }
    CHECK(!same_bits(unnamed[0], unnamed[3])); // equal tensors, which differ in nothing but the name

    auto alone = initial[0];
    step(alone, gradient[0]);
    CHECK(same_bits(alone, unnamed[0]));
    auto third = initial[2];
    std::vector<slice> model{{third, gradient[2]}};
    model[0].id = 2;
    step(model);
    CHECK(same_bits(third, unnamed[2]));
}

TEMPLATE_TEST_CASE("seed, step and tensor give bits that have nothing to do with each other", "[core][rounding]",
                   gs::bfloat16, gs::float16) {
    std::size_t const n = draws / 10;
    auto const first = coins<TestType>(n, 1, 1, 0);
    CHECK(first == coins<TestType>(n, 1, 1, {}));
    auto const check = [&](std::vector<bool> const& other, std::size_t shift = 0) {
        auto const found = joint(first, other, shift);
        CHECK(found.chi_square < chi_square_3_bound);
        CHECK(std::abs(found.correlation) < normal_bound);
    };
    for (std::uint64_t const seed : {std::uint64_t(0), std::uint64_t(2), std::uint64_t(1) << 32})
        check(coins<TestType>(n, seed, 1, 0));
    for (std::int64_t const step : {std::int64_t(2), std::int64_t(3), std::int64_t(1) << 40})
        check(coins<TestType>(n, 1, step, 0));
    for (std::uint64_t const id : {std::uint64_t(1), std::uint64_t(2), std::uint64_t(1) << 32})
        check(coins<TestType>(n, 1, 1, id));
    check(coins<TestType>(n, 2, 1, 1));                                                    // seed and id exchanged
    for (std::size_t const shift : {1u, 2u, 3u, 8u, 16u, 64u, 1024u}) check(first, shift); // its own elements
}

TEST_CASE("two tensors of one step are independent, as are all pairs of many", "[core][rounding]") {
    std::vector<std::vector<bool>> all;
    for (std::uint64_t id = 0; id < 32; ++id) all.push_back(coins<gs::bfloat16>(1 << 14, 11, 1, id));
    double const one_of_496 = 6; // |z|: 496 pairs, once in a million all together
    double furthest = 0;
    for (std::size_t a = 0; a < all.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) furthest = std::max(furthest, std::abs(joint(all[a], all[b]).correlation));
    CHECK(furthest < one_of_496);
}

TEST_CASE("the joint distribution of words is even", "[core][rounding]") {
    auto const a = gs::detail::element_words::of(1, 1, 0), b = gs::detail::element_words::of(1, 1, 1);
    // Four bits of each word: the lowest, those at the top of what float16 and bfloat16 look at,
    // the highest.
    for (unsigned const low : {0u, 9u, 12u, 28u}) {
        auto const chi_square = [&](gs::detail::element_words const& of_other, std::uint64_t shift) {
            std::vector<std::size_t> count(256);
            for (std::uint64_t i = 0; i < draws; ++i)
                ++count[(a.word(i) >> low & 15u) * 16 + (of_other.word(i + shift) >> low & 15u)];
            double const expected = static_cast<double>(draws) / 256;
            double sum = 0;
            for (std::size_t const each : count) sum += std::pow(static_cast<double>(each) - expected, 2) / expected;
            return sum;
        };
        CAPTURE(low);
        CHECK(chi_square(b, 0) < chi_square_255_bound);
        // Elements of one tensor share a key, and their words are not quite even: by less than 1 %
        // of each frequency, as a root mean square.
        double const one_percent = 0.01 * 0.01 * static_cast<double>(draws);
        for (std::uint64_t const shift : {1u, 2u, 16u})
            CHECK(chi_square(a, shift) < chi_square_255_bound + one_percent);
    }
}

TEST_CASE("elements beyond 2^32 have bits of their own, the same in packs", "[core][rounding]") {
    using packs = gs::simd<float, gs::detail::best_arch>;
    using io = gs::pack_traits<packs>;
    auto const words = gs::detail::element_words::of(1, 2, 3);
    std::uint64_t const wrap = std::uint64_t(1) << 32;
    std::size_t equal = 0;
    std::array<std::size_t, 32> agree{};
    for (std::uint64_t i = 0; i < draws / 10; ++i) {
        std::uint32_t const x = words.word(i), y = words.word(i + wrap);
        equal += x == y;
        for (std::size_t bit = 0; bit < 32; ++bit) agree[bit] += ((x ^ y) >> bit & 1) == 0;
        if (i < 100) CHECK(words.from(wrap - 50).word(i) == words.word(wrap - 50 + i));
    }
    double const n = static_cast<double>(draws / 10);
    CHECK(equal < 10); // of pairs of 32 random bits, 10^6 at most
    for (std::size_t const each : agree)
        CHECK(std::abs(static_cast<double>(each) - n / 2) < normal_bound * std::sqrt(n) / 2);

    std::array<float, io::size> x;
    for (std::size_t k = 0; k < io::size; ++k) x[k] = 1 + 0.001f * static_cast<float>(k);
    for (std::uint64_t first = wrap - 2 * io::size; first < wrap + io::size; ++first) {
        std::array<float, io::size> rounded;
        io::store(rounded.data(), io::drop_bits(io::load(x.data(), gs::all_lanes{}), 16, words, first),
                  gs::all_lanes{});
        for (std::size_t k = 0; k < io::size; ++k)
            CHECK(rounded[k] == gs::detail::drop_bits(x[k], 16, words, first + k));
    }
}

TEST_CASE("a row of a table rounds as those elements of a dense tensor", "[core][rounding]") {
    std::int64_t const rows = 40;
    std::size_t const width = 5;
    auto const optimizer = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::adagrad{}, gs::constant{0.01});
    gs::table table{optimizer, rows, static_cast<int>(width), gs::touch_only{}, {.initial = 1.0}};
    gs::parameter dense{optimizer,
                        std::vector<gs::bfloat16>(static_cast<std::size_t>(rows) * width, gs::bfloat16(1.0f))};
    auto const gradient = numbers<gs::bfloat16>(static_cast<std::size_t>(rows) * width, 4);
    std::vector<std::int64_t> const ids{39, 3, 17, 0, 18};
    for (int k = 0; k < 4; ++k) {
        std::vector<gs::bfloat16> named;
        for (std::int64_t const id : ids)
            for (std::size_t c = 0; c < width; ++c) named.push_back(gradient[static_cast<std::size_t>(id) * width + c]);
        table.update(ids, named, {.seed = 21});
        dense.update(gradient, {.seed = 21});
    }
    for (std::int64_t const id : ids) {
        auto const row = table.row(id);
        auto const begin = dense.values().begin() + id * static_cast<std::int64_t>(width);
        CHECK(same_bits(row, std::vector<gs::bfloat16>(begin, begin + static_cast<std::ptrdiff_t>(width))));
    }
}

TEST_CASE("parameters of different ids round differently", "[core][rounding]") {
    auto const optimizer = optimizer_of<gs::bfloat16>(0.01);
    auto const initial = numbers<gs::bfloat16>(1000, 1), g = numbers<gs::bfloat16>(1000, 2);
    gs::parameter first{optimizer, initial}, same{optimizer, initial, {.id = 0}}, other{optimizer, initial, {.id = 1}};
    for (auto* x : {&first, &same, &other}) x->update(g, {.seed = 3});
    auto const copy = [](auto const& x) { return std::vector<gs::bfloat16>(x.values().begin(), x.values().end()); };
    CHECK(same_bits(copy(first), copy(same)));
    CHECK(!same_bits(copy(first), copy(other)));
}
