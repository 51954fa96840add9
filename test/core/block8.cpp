// State in 8 bits: the map of the paper, what no code stands for, the same bits however a call is
// divided, and steps beside those in float.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(),
                not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t length = gs::coded_block::length;

template <class Rule, class Backend = gs::simd_backend<>>
auto in_blocks(Rule rule, double rate = 0, Backend const& backend = Backend{}) {
    return gs::make_updater<gs::block8<float>>(rule, gs::constant{rate}, backend);
}

// What a slot becomes, as a block or several: momentum keeps m = g.
std::vector<gs::coded_block> blocks_of(std::vector<float> const& m) {
    gs::parameter x{in_blocks(gs::momentum{.mu = 0}), std::vector<float>(m.size())};
    x.update(m);
    auto const state = x.state<"m">();
    return {state.begin(), state.end()};
}
std::vector<float> decoded(gs::code_map map, std::span<gs::coded_block const> blocks, std::size_t n) {
    std::vector<float> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = gs::element_of(map, blocks[i / length], i % length);
    return out;
}
bool same_blocks(std::span<gs::coded_block const> a, std::span<gs::coded_block const> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// The numbers of a map in the order of their codes, by the formula of arXiv:2110.02861.
std::vector<double> map_of(gs::code_map map) {
    std::vector<double> out;
    for (int i = 0; i < 7; ++i) {
        int const n = map == gs::code_map::both_signs ? 1 << i : 2 << i;
        for (int k = 0; k < n; ++k) out.push_back(std::pow(10.0, i - 6) * (0.1 + 0.9 * (k + 0.5) / n));
    }
    std::size_t const magnitudes = out.size();
    if (map == gs::code_map::both_signs)
        for (std::size_t k = 0; k < magnitudes; ++k) out.push_back(-out[k]);
    out.push_back(0);
    out.push_back(1);
    std::sort(out.begin(), out.end());
    return out;
}
// Each element becomes the nearest multiple of its block's scale, or the least that is not 0 where
// the slot divides.
void round_to_nearest(gs::code_map map, std::vector<float>& slot) {
    std::vector<double> const multiples = map_of(map);
    for (std::size_t first = 0; first < slot.size(); first += length) {
        std::span<float> const block = std::span(slot).subspan(first, std::min(length, slot.size() - first));
        double const scale =
            *std::max_element(block.begin(), block.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
        if (scale == 0) continue;
        for (float& x : block) {
            double const share = static_cast<double>(x) / scale;
            auto const above = std::lower_bound(multiples.begin() + 1, multiples.end() - 1, share), below = above - 1;
            double nearest = share - *below < *above - share ? *below : *above;
            if (map == gs::code_map::one_sign && nearest == 0 && x != 0) nearest = multiples[1];
            x = static_cast<float>(nearest * scale);
        }
    }
}
constexpr gs::code_map maps[] = {gs::code_map::both_signs, gs::code_map::one_sign};
using packs = gs::pack_traits<gs::simd_backend<>::pack<float>>::codes;

// The codes of elements, whose largest magnitude is `scale`.
template <class Codes> std::vector<std::uint8_t> encoded(gs::code_map map, std::vector<float> const& x, float scale) {
    using gs::detail::codes_at_once;
    std::vector<float> block(gs::coded_block::count(x.size()) * length);
    std::copy(x.begin(), x.end(), block.begin());
    std::vector<std::uint8_t> codes(block.size());
    for (std::size_t k = 0; k < codes.size(); k += length) {
        float const inverse = gs::detail::inverse_of(block.data() + k, scale);
        for (std::size_t i = k; i < k + length; i += codes_at_once) {
            if (map == gs::code_map::both_signs)
                Codes::template encode<gs::code_map::both_signs>(block.data() + i, inverse, codes.data() + i);
            else Codes::template encode<gs::code_map::one_sign>(block.data() + i, inverse, codes.data() + i);
        }
    }
    codes.resize(x.size());
    return codes;
}

struct half_of {
    std::vector<float> const& of;
};
struct half_reader {
    float const* of;
    template <class V> V load(std::size_t i, gs::all_lanes) const { return V(of[i] / 2); }
};

} // namespace

template <> struct gs::buffer_traits<half_of> {
    using memory_space = gs::host_memory;
    static std::size_t size(half_of const& x) { return x.of.size(); }
    template <class W> static half_reader reader(half_of const& x, W const&) { return {x.of.data()}; }
};

TEST_CASE("block8: the codes stand for the numbers of the dynamic map, times the scale", "[block8]") {
    for (gs::code_map const map : maps) {
        std::vector<double> const numbers_of_map = map_of(map);
        REQUIRE(numbers_of_map.size() == 256);
        for (float const scale : {1.0f, 3.0f, 1e-20f, 1e30f, 3e38f}) {
            gs::coded_block block{scale, {}};
            for (std::size_t k = 0; k < 256; ++k) block.codes[k] = static_cast<std::uint8_t>(k);
            for (std::size_t k = 0; k < 256; ++k) {
                double const exact = numbers_of_map[k] * static_cast<double>(scale);
                CAPTURE(map, k, scale);
                // Cut to 16 digits.
                CHECK(std::abs(static_cast<double>(gs::element_of(map, block, k)) - exact) <=
                      0x1p-15 * std::abs(exact));
            }
            CHECK(gs::element_of(map, block, 255) == scale);
            CHECK(gs::element_of(map, block, map == gs::code_map::both_signs ? 127 : 0) == 0);
        }
    }
    CHECK(gs::element_of(gs::code_map::both_signs, {-2, {255}}, 0) == -2);
}

TEST_CASE("block8: an element has the code of the nearest number, on both sides of every middle between two",
          "[block8]") {
    for (gs::code_map const map : maps) {
        bool const has_sign = map == gs::code_map::both_signs;
        for (float const scale :
             {1.0f, 0.7f, -0.7f, 0x1p99f, -0x1.8p101f, 0x1.fp127f, 0x1.1p-93f, 0x1.1p-94f, 0x1p-95f, -0x1p-101f}) {
            if (scale < 0 && !has_sign) continue;
            std::vector<float> x;
            std::vector<int> codes;
            auto const add = [&](double magnitude, int h) {
                for (float const sign : {1.0f, -1.0f}) {
                    if (sign < 0 && !has_sign) break;
                    x.push_back(static_cast<float>(magnitude * static_cast<double>(scale * sign)));
                    codes.push_back(!has_sign ? h : sign > 0 ? 127 + h : 127 - h);
                }
            };
            int h = 0; // the code of a magnitude, without the offset of 127
            for (int i = 0; i < 7; ++i) {
                int const n = has_sign ? 1 << i : 2 << i;
                for (int k = 0; k < n; ++k) {
                    double const end = std::pow(10, i - 6), part = 0.9 * end / n, begin = 0.1 * end + k * part;
                    double const below = k == 0 ? 0.2 * part : part; // the part before this one
                    ++h;
                    add(begin + 0.5 * part, h);
                    if (h == 1) continue;
                    double const middle = begin + (part - below) / 4;
                    add(middle - 0.03 * below, h - 1);
                    add(middle + 0.03 * part, h);
                }
            }
            add(0.999, h);
            add(0, 0);
            if (has_sign) {
                add(2.7e-7, 0); // nearer to 0
                add(2.8e-7, 1);
                add(1e-30, 0);
            } else {
                add(1e-8, 1);
                add(1e-20, scale < 1e-18f ? 0 : 1); // below 2^-125 is 0
            }
            x.push_back(scale);
            codes.push_back(255);
            auto const found = encoded<gs::detail::scalar_codes>(map, x, scale);
            for (std::size_t i = 0; i < x.size(); ++i) {
                CAPTURE(map, scale, x[i] / scale);
                CHECK(int(found[i]) == codes[i]);
            }
        }
    }
}

TEST_CASE("block8: every code decodes and encodes to itself, one by one and in packs", "[block8]") {
    for (gs::code_map const map : maps)
        for (float const scale : {1.0f, 3.0f, 0x1p-100f, 0x1.8p100f, 0x1p-93f, 0x1.8p127f}) {
            gs::coded_block block{scale, {}};
            std::vector<float> x(256);
            for (std::size_t k = 0; k < 256; ++k) block.codes[k] = static_cast<std::uint8_t>(k);
            for (std::size_t k = 0; k < 256; ++k) x[k] = gs::element_of(map, block, k);
            auto const one_by_one = encoded<gs::detail::scalar_codes>(map, x, scale),
                       in_packs = encoded<packs>(map, x, scale);
            for (std::size_t k = 0; k < 256; ++k) {
                CAPTURE(map, scale, k);
                CHECK(int(one_by_one[k]) == int(k));
                CHECK(int(in_packs[k]) == int(k));
            }
            std::vector<float> decoded(256);
            for (std::size_t k = 0; k < 256; k += gs::detail::codes_at_once) {
                if (map == gs::code_map::both_signs)
                    packs::decode<gs::code_map::both_signs>(block.codes + k, scale, &decoded[k]);
                else packs::decode<gs::code_map::one_sign>(block.codes + k, scale, &decoded[k]);
            }
            CHECK(same_bits(decoded, x));
        }
}

TEST_CASE("block8: packs have the codes of single elements, for shares of every size", "[block8]") {
    for (gs::code_map const map : maps) {
        bool const has_sign = map == gs::code_map::both_signs;
        for (float const scale : {1.0f, 0.3f}) {
            std::vector<float> x;
            for (std::uint32_t exponent = 0; exponent < 128; exponent += exponent < 90 ? 15 : 1)
                for (std::uint32_t fraction = 0; fraction < 1u << 23; fraction += exponent < 100 ? 262'139 : 509) {
                    float const share = std::bit_cast<float>(exponent << 23 | fraction);
                    if (share > 1) break;
                    x.push_back(has_sign && fraction % 2 ? -share * scale : share * scale);
                }
            x.resize(x.size() / length * length);
            CHECK(encoded<packs>(map, x, scale) == encoded<gs::detail::scalar_codes>(map, x, scale));
        }
    }
}

TEST_CASE("block8: what is decoded has the same codes again, and the largest of either sign stays", "[block8]") {
    for (float const sign : {1.0f, -1.0f}) {
        std::vector<float> m = numbers<float>(2 * length, 3);
        m[7] = m[300] = 3 * sign;
        auto const blocks = blocks_of(m);
        CHECK(blocks[0].scale == 3 * sign);
        std::vector<float> const again = decoded(gs::code_map::both_signs, blocks, m.size());
        CHECK(again[7] == 3 * sign);
        CHECK(same_blocks(blocks_of(again), blocks));
    }
    auto const both = blocks_of({1, -1, 0.5f});
    CHECK(both[0].scale == 1);
    CHECK(both[0].codes[0] == 255);
    CHECK(both[0].codes[1] == 0); // the least there is: -1 has no code
}

TEST_CASE("block8: zeros, the smallest and the largest numbers", "[block8]") {
    auto const zero = blocks_of(std::vector<float>(3));
    CHECK(zero[0].scale == 0);
    CHECK(std::all_of(zero[0].codes, zero[0].codes + length, [](std::uint8_t c) { return c == 127; }));
    auto const subnormal = blocks_of({1e-40f, -1e-40f});
    CHECK(subnormal[0].scale == 0);
    CHECK(subnormal[0].codes[0] == 127);
    auto const small = blocks_of({1.5e-38f, -1.5e-38f / 3, 0});
    CHECK(small[0].scale == 1.5e-38f);
    CHECK(small[0].codes[0] == 255);
    for (float const huge : {1.2e38f, 3.4e38f, -3.4e38f}) {
        auto const blocks = blocks_of({huge, huge / 2, 0, -huge / 100});
        auto const values = decoded(gs::code_map::both_signs, blocks, 4);
        CHECK(values[0] == huge);
        // The nearest numbers: part 28 of 64 of the decade to 1, and the last of 16 of that to
        // 0.01, cut to 16 binary digits.
        constexpr double of_half = 0.1 + 0.9 * 28.5 / 64, of_hundredth = 0.01 * (0.1 + 0.9 * 15.5 / 16);
        CHECK(values[1] == Approx(huge * of_half).epsilon(0x1p-15));
        CHECK(values[2] == 0);
        CHECK(values[3] == Approx(-huge * of_hundredth).epsilon(0x1p-15));
    }
    // Behind the last element of a tensor there is nothing that counts.
    auto const last = blocks_of({2, 1});
    CHECK(std::all_of(last[0].codes + 2, last[0].codes + length, [](std::uint8_t c) { return c == 127; }));
}

TEST_CASE("block8: subnormal numbers, where they are kept, have the code of 0 beside others", "[block8]") {
    for (gs::code_map const map : maps) {
        std::vector<float> x(length);
        x[0] = 1, x[1] = std::numeric_limits<float>::denorm_min(), x[2] = 1e-40f, x[3] = 0x1p-127f, x[4] = 0x1.fp-127f;
        x[5] = 0x1p-124f; // not subnormal: with one sign it is not 0
        bool const has_sign = map == gs::code_map::both_signs;
        std::vector<std::uint8_t> codes(length, has_sign ? 127 : 0);
        codes[0] = 255, codes[5] = has_sign ? 127 : 1;
        CHECK(encoded<gs::detail::scalar_codes>(map, x, 1) == codes);
        CHECK(encoded<packs>(map, x, 1) == codes);
    }
}

TEST_CASE("block8: a zero with a sign counts for nothing in a slot of one sign", "[block8]") {
    std::vector<float> x(length, 0.5f);
    x[3] = -0.0f;
    constexpr gs::code_map map = gs::code_map::one_sign;
    using one_by_one = gs::detail::scalar_codes;
    CHECK(gs::detail::scale_of<map>(x.data(), one_by_one::extremes_of<map>(x.data())) == 0.5f);
    CHECK(gs::detail::scale_of<map>(x.data(), packs::extremes_of<map>(x.data())) == 0.5f);
    for (auto const& codes : {encoded<one_by_one>(map, x, 0.5f), encoded<packs>(map, x, 0.5f)}) {
        CHECK(int(codes[3]) == 0);
        CHECK(int(codes[4]) == 255);
    }
}

TEST_CASE("block8: what is not finite reaches its own weight and no other", "[block8]") {
    std::vector<float> m = numbers<float>(2 * length, 3);
    std::vector<float> finite = m;
    m[4] = infinity, m[5] = -infinity, m[6] = not_a_number;
    finite[4] = 2, finite[5] = -2, finite[6] = 0; // 2 is the largest magnitude
    finite[9] = m[9] = 2;
    CHECK(same_blocks(blocks_of(m), blocks_of(finite)));
    CHECK(blocks_of({not_a_number, infinity})[0].scale == 0);

    auto const optimizer = in_blocks(gs::adam{}, 0.01);
    std::vector<float> const start(2 * length, 1.0f);
    gs::parameter with{optimizer, start};
    gs::parameter without{optimizer, start};
    std::vector<float> g = numbers<float>(start.size(), 8), clean = g;
    g[100] = not_a_number;
    clean[100] = 0;
    for (int step = 0; step < 3; ++step) {
        with.update(g);
        without.update(clean);
    }
    for (std::size_t i = 0; i < start.size(); ++i) CHECK((with.values()[i] == without.values()[i]) == (i != 100));
    CHECK(std::isnan(with.values()[100]));
}

namespace {

// The steps of a parameter, with its blocks.
template <class Rule, class Backend>
std::pair<std::vector<float>, std::vector<gs::coded_block>> trained(Rule rule, std::size_t n, Backend const& backend) {
    auto optimizer = in_blocks(rule, 0.01, backend);
    gs::parameter x{optimizer, numbers<float>(n, 1)};
    for (std::uint32_t step = 0; step < 5; ++step)
        x.update(numbers<float>(n, 2 + step), {.gradient_scale = step == 3 ? 0.5 : 1});
    std::vector<gs::coded_block> state;
    for (char const* slot : decltype(optimizer)::state_names)
        for (gs::coded_block const& block : x.state(slot)) state.push_back(block);
    return {{x.values().begin(), x.values().end()}, state};
}

} // namespace

// Rules with none to three slots and with both maps. Blocks see no other difference between rules.
TEMPLATE_TEST_CASE("block8: the same bits element by element and in packs", "[block8]", gs::adam, gs::amsgrad, gs::lion,
                   gs::momentum, gs::adagrad, gs::sgd) {
    for (std::size_t const n : {1u, 255u, 256u, 257u, 1000u}) {
        auto const expected = trained(TestType{}, n, gs::serial_backend{});
        auto const packs = trained(TestType{}, n, gs::simd_backend<>{});
        CAPTURE(n);
        CHECK(same_bits(packs.first, expected.first));
        CHECK(same_blocks(packs.second, expected.second));
        for (float const w : packs.first) CHECK(std::isfinite(w));
    }
}

TEST_CASE("block8: the same bits on any number of threads", "[block8]") {
    std::size_t const large = 300'001; // several parts, none of which ends where a block does
    auto const expected = trained(gs::adam{}, large, gs::simd_backend<>{});
    for (std::size_t const threads : thread_counts({2, 3, 7})) {
        gs::thread_pool pool(threads);
        auto const parts = trained(gs::adam{}, large, gs::simd_backend{pool});
        CHECK(same_bits(parts.first, expected.first));
        CHECK(same_blocks(parts.second, expected.second));
    }
}

TEST_CASE("block8: what memory has behind the end of a tensor counts for nothing", "[block8]") {
    std::size_t const n = 300, blocks = gs::coded_block::count(n), rest = n % gs::coded_block::length;
    auto const trained = [&](int behind) {
        auto optimizer = in_blocks(gs::adam{}, 0.1, gs::simd_backend{});
        std::vector<float> w = numbers<float>(n, 1);
        std::vector<gs::coded_block> m(blocks), v(blocks);
        optimizer.initialize(w, m, v);
        for (int t = 0; t < 50; ++t) {
            if (t == 1 && behind >= 0) // as memory has it into which a checkpoint was read
                for (auto* const slot : {&m, &v})
                    std::fill(slot->back().codes + rest, std::end(slot->back().codes),
                              static_cast<std::uint8_t>(behind));
            std::vector<float> g = numbers<float>(n, 2);
            if (t == 0)
                for (float& x : g) x *= 1000; // so that a scale which stays would be seen
            optimizer.next_step()(w, g, m, v);
        }
        return w;
    };
    auto const expected = trained(-1);
    CHECK(same_bits(trained(0), expected));
    CHECK(same_bits(trained(255), expected));
}

TEST_CASE("block8: tensors of any length in one call, and in parts that end anywhere", "[block8]") {
    auto optimizer = in_blocks(gs::adam{}, 0.1, gs::serial_backend{});
    std::vector<std::size_t> const sizes = {1, 700, 256, 0, 255, 3};
    struct tensor_of_blocks {
        std::vector<float> w, g;
        std::vector<gs::coded_block> m, v;
    };
    std::vector<tensor_of_blocks> a, b;
    for (std::size_t const n : sizes) {
        std::size_t const blocks = gs::coded_block::count(n);
        std::vector<gs::coded_block> const none(blocks);
        a.push_back({numbers<float>(n, 1), numbers<float>(n, 2), none, none});
        optimizer.initialize(a.back().w, a.back().m, a.back().v);
    }
    b = a;
    std::vector<gs::slice<decltype(optimizer)>> in_a;
    for (auto& x : a) in_a.emplace_back(x.w, x.g, x.m, x.v);
    auto const step = optimizer.next_step();
    step(in_a);
    for (auto& x : b) {
        gs::slice<decltype(optimizer)> const one(x.w, x.g, x.m, x.v);
        auto const batch = step.batch(one);
        std::size_t first = 0;
        for (std::size_t part = 1; first < x.w.size(); ++part) { // of 1, 2, 3, ... elements
            std::size_t const end = std::min(x.w.size(), first + part);
            optimizer.backend().run_part(batch, first, end);
            first = end;
        }
    }
    for (std::size_t k = 0; k < a.size(); ++k) {
        CHECK(same_bits(a[k].w, b[k].w));
        CHECK(same_blocks(a[k].m, b[k].m));
        CHECK(same_blocks(a[k].v, b[k].v));
    }
}

TEST_CASE("block8: options of a step, and a gradient that is computed while it is read", "[block8]") {
    std::size_t const n = 600;
    auto const optimizer = gs::make_updater<gs::block8<float>>(gs::adam{}, gs::l2{0.1}, gs::constant{0.1});
    std::vector<float> const start = numbers<float>(n, 1);
    gs::parameter plain{optimizer, start};
    gs::parameter other{optimizer, start};
    std::vector<float> g = numbers<float>(n, 2), doubled = g;
    for (float& x : doubled) x *= 2;
    plain.update(g);
    other.update(doubled, {.gradient_scale = 0.5, .zero_gradient = true});
    CHECK(same_bits(std::vector<float>(plain.values().begin(), plain.values().end()),
                    std::vector<float>(other.values().begin(), other.values().end())));
    CHECK(same_blocks(plain.state<"v">(), other.state<"v">()));
    CHECK(doubled == std::vector<float>(n));

    gs::parameter lazy{optimizer, start};
    lazy.update(half_of{g}, {.gradient_scale = 2});
    CHECK(same_bits(std::vector<float>(lazy.values().begin(), lazy.values().end()),
                    std::vector<float>(plain.values().begin(), plain.values().end())));
    CHECK(same_blocks(lazy.state<"v">(), plain.state<"v">()));
}

#if defined(__GLIBC__)
TEST_CASE("block8: a step on regular numbers survives traps of floating-point exceptions", "[block8]") {
    std::size_t const n = 300;
    auto const survives = [&](auto const& optimizer) {
        gs::parameter x{optimizer, numbers<float>(n, 1)};
        std::vector<float> g = numbers<float>(n, 2);
        for (float& each : g) each *= 1000; // so that sums of squares are large
        std::fill(g.begin() + length, g.end(), 0.0f);
        constexpr int trapped = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;
        for (int step = 0; step < 3; ++step) {
            std::feclearexcept(trapped);
            feenableexcept(trapped); // a trap ends the test
            x.update(g);
            fedisableexcept(trapped);
        }
        CHECK(std::all_of(x.values().begin(), x.values().end(), [](float w) { return std::isfinite(w); }));
    };
    survives(in_blocks(gs::adagrad{}, 0.01, gs::serial_backend{}));
    survives(in_blocks(gs::adagrad{}, 0.01, gs::simd_backend<>{}));
    survives(in_blocks(gs::adam{}, 0.01, gs::simd_backend<>{}));
}
#endif

TEST_CASE("block8: its steps are those in float, but for the roundings of the state", "[block8]") {
    // Distances from the weights in float after 200 steps, as a share of the way that these went
    // (root mean squares): of weights whose state is kept in codes, and of weights whose state is
    // rounded to the nearest number of the paper after each step.
    struct result {
        double codes = 0, nearest = 0;
    };
    auto const distance = [](auto rule, double rate) {
        using rule_type = decltype(rule);
        std::size_t const n = 4096;
        auto const start = numbers<float>(n, 1), target = numbers<float>(n, 2);
        auto const in_float = gs::make_updater<float>(rule, gs::constant{rate});
        constexpr std::size_t slots = decltype(in_float)::slots;
        gs::parameter blocks{in_blocks(rule, rate), start};
        gs::parameter floats{in_float, start};

        auto by_nearest = in_float;
        std::vector<float> w = start;
        std::array<std::vector<float>, slots> state;
        for (auto& slot : state) slot.resize(n);
        std::apply([&](auto&... slot) { by_nearest.initialize(w, slot...); }, state);
        for (std::uint32_t step = 0; step < 200; ++step) {
            auto const noise = numbers<float>(n, 3 + step);
            auto const gradient = [&](auto const& values) {
                std::vector<float> g(n);
                for (std::size_t i = 0; i < n; ++i) g[i] = values[i] - target[i] + 0.25f * noise[i];
                return g;
            };
            blocks.update(gradient(blocks.values()));
            floats.update(gradient(floats.values()));
            std::vector<float> const g = gradient(w);
            std::apply([&](auto&... slot) { by_nearest.next_step()(w, g, slot...); }, state);
            for (std::size_t k = 0; k < slots; ++k) round_to_nearest(rule_type::code_maps[k], state[k]);
        }
        auto const apart = [&](auto const& from) {
            double squares = 0, way = 0;
            for (std::size_t i = 0; i < n; ++i) {
                squares += std::pow(static_cast<double>(from[i] - floats.values()[i]), 2);
                way += std::pow(static_cast<double>(floats.values()[i] - start[i]), 2);
            }
            return std::sqrt(squares / way);
        };
        return result{apart(blocks.values()), apart(w)};
    };
    // The codec finds the middle between two numbers to a hundredth of their distance: what it
    // rounds is off by 0.51 of it at most, where rounding to nearest is off by 0.5, so that errors
    // that all go one way are 1.02 times as large. The ratio of root mean squares of n numbers each
    // strays by 1 / sqrt(n): twice that is 0.03 more.
    // `most` is what coarser numbers would exceed, of which both kinds of rounding would be further
    // off.
    auto const check = [&](auto rule, double rate, double most) {
        result const of = distance(rule, rate);
        CHECK(of.codes < most);
        CHECK(of.codes < 1.05 * of.nearest);
    };
    check(gs::adam{}, 0.01, 0.03);
    check(gs::momentum{}, 0.01, 0.03);
    check(gs::adagrad{}, 0.05, 0.03);
    check(gs::lion{}, 0.005, 0.2); // a sign that differs is a whole step
    check(gs::rmsprop{}, 0.01, 0.03);
}
