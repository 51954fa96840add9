// Sharpness-aware minimization in two halves: `ascend` against the papers' formulas, and `descend`
// as the step from the weights before, bit for bit.
#include <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/folder.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

using real = long double;
constexpr float infinity = std::numeric_limits<float>::infinity();

gs::simd_backend const backend;
auto adam() { return gs::make_updater<float>(gs::adam{}, gs::decoupled{0.01}, gs::constant{0.01}, backend); }
auto momentum() { return gs::make_updater<float>(gs::momentum{0.5}, gs::constant{0.125}, backend); }

template <class T> std::vector<T> copied(std::span<T const> of) { return {of.begin(), of.end()}; }
// Sizes of more than a block of the norm, and of less.
std::vector<float> weights_of(std::size_t n) { return numbers<float>(n, 3); }
std::vector<float> gradient_of(std::size_t n, std::uint32_t t) { return numbers<float>(n, 40 + t); }

real a_of(float w, gs::sam_options const& how) { return how.adaptive ? std::abs(real(w)) + real(how.eta) : 1; }

// The weights after `ascend` by the formula, and the sum of the roundings of a weight, in units of
// u: of the scale and of the sum, and with ASAM of a, of the two products, and of the products in
// the norm.
void check_ascent(std::vector<std::vector<float>> const& w, std::vector<std::vector<float>> const& g,
                  gs::sam_options const& how, std::vector<std::vector<float>> const& ascended, double norm) {
    real squares = 0;
    for (std::size_t k = 0; k < w.size(); ++k)
        for (std::size_t i = 0; i < w[k].size(); ++i) {
            real const x = a_of(w[k][i], how) * real(g[k][i]);
            squares += x * x;
        }
    real const expected_norm = std::sqrt(squares), u = std::numeric_limits<float>::epsilon() / 2;
    CHECK(std::abs(real(norm) / expected_norm - 1) <= (how.adaptive ? 1.01L * 2 * u : 1e-12L));
    std::size_t wrong = 0, moved = 0;
    for (std::size_t k = 0; k < w.size(); ++k)
        for (std::size_t i = 0; i < w[k].size(); ++i) {
            real const a = a_of(w[k][i], how);
            real const move = real(how.rho) / (expected_norm + real(how.epsilon)) * a * a * real(g[k][i]);
            real const expected = real(w[k][i]) + move;
            real const roundings = how.adaptive ? 1 + 2 + 2 + 2 : 1; // a enters twice, and the norm's a and product
            real const bound = 1.01L * u * (roundings * std::abs(move) + std::abs(expected));
            wrong += !(std::abs(real(ascended[k][i]) - expected) <= bound + 1e-45L);
            moved += ascended[k][i] != w[k][i];
        }
    CHECK(wrong == 0);
    CHECK(moved > 0);
}

constexpr gs::sam_options sam{.rho = 0.5}, asam{.rho = 2, .adaptive = true};

} // namespace

TEST_CASE("ascend of a parameter is the formula, and descend the step from the weights before", "[sam]") {
    for (gs::sam_options const& how : {sam, asam, gs::sam_options{.rho = 1, .adaptive = true, .eta = 0}}) {
        gs::parameter two_halves{adam(), weights_of(9001)}, plain{adam(), weights_of(9001)};
        for (std::uint32_t t = 0; t < 4; ++t) {
            auto const before = copied(two_halves.values());
            auto const g = gradient_of(9001, 2 * t), g2 = gradient_of(9001, 2 * t + 1);
            auto const result = two_halves.ascend(g, how);
            CHECK(result.applied);
            CHECK(two_halves.is_ascended());
            CHECK(two_halves.clock().step == t);
            check_ascent({before}, {g}, how, {copied(two_halves.values())}, result.norm);
            CHECK(two_halves.descend(g2).applied);
            CHECK(!two_halves.is_ascended());
            plain.update(g2);
            CHECK(copied(two_halves.values()) == copied(plain.values()));
            CHECK(copied(two_halves.state<"m">()) == copied(plain.state<"m">()));
            CHECK(two_halves.clock().step == t + 1);
        }
    }
}

TEST_CASE("ascend of a model divides by the norm of all gradients, with the same bits on threads", "[sam]") {
    std::vector<std::size_t> const sizes{20'000, 7, 4096, 100'003};
    for (gs::sam_options const& how : {sam, asam}) {
        gs::thread_pool pool(3);
        gs::model alone, threaded{pool};
        std::vector<std::vector<float>> w, g, g2, in_place, slots;
        for (std::size_t const n : sizes) {
            w.push_back(weights_of(n));
            g.push_back(gradient_of(n, 1));
            g2.push_back(gradient_of(n, 2));
            slots.emplace_back(n);
        }
        in_place = w;
        // In the model on threads every second tensor is the application's memory.
        auto const name = [](std::size_t k) { return "w" + std::to_string(k); };
        for (std::size_t k = 0; k < sizes.size(); ++k) {
            alone.add(name(k), gs::parameter{momentum(), w[k]});
            if (k % 2 == 0) threaded.add(name(k), gs::parameter{momentum(), w[k]});
            else threaded.add(name(k), momentum(), {in_place[k], std::span<float>(), slots[k]});
        }
        using type = decltype(momentum());
        auto const values = [&](gs::model const& of, std::size_t k) {
            return &of == &threaded && k % 2 == 1 ? in_place[k] : copied(of.get<type>(name(k)).values());
        };
        std::vector<std::string> const names = alone.names();
        std::vector<gs::named_gradient> first, second;
        for (std::size_t k = 0; k < names.size(); ++k) {
            first.emplace_back(names[k], g[k]);
            second.emplace_back(names[k], g2[k]);
        }
        auto const a = alone.ascend(first, how), b = threaded.ascend(first, how);
        REQUIRE(a.norm);
        CHECK(a.norm == b.norm);
        std::vector<std::vector<float>> ascended;
        for (std::size_t k = 0; k < names.size(); ++k) {
            ascended.push_back(values(alone, k));
            CHECK(values(threaded, k) == ascended[k]);
        }
        check_ascent(w, g, how, ascended, *a.norm);
        alone.descend(second);
        threaded.descend(second);
        for (std::size_t k = 0; k < names.size(); ++k) {
            gs::parameter plain{momentum(), w[k]};
            plain.update(g2[k]);
            CHECK(values(alone, k) == copied(plain.values()));
            CHECK(values(threaded, k) == copied(plain.values()));
        }
    }
}

TEST_CASE("two halves are the literal loop of SAM on a quadratic", "[sam]") {
    // The loss is sum(h w^2) / 2, with the gradient h w. All numbers are exact, and so is the norm:
    // |(3, 4)| = 5.
    std::vector<double> const h{3, 4};
    auto const optimizer = gs::make_updater<double>(gs::sgd{}, gs::constant{0.25}, gs::serial_backend{});
    gs::parameter p{optimizer, std::vector<double>{1, 1}};
    auto const gradient = [&] { return std::vector<double>{h[0] * p.values()[0], h[1] * p.values()[1]}; };
    CHECK(p.ascend(gradient(), {.rho = 5, .epsilon = 0}).norm == 5);
    CHECK(copied(p.values()) == std::vector<double>{4, 5}); // 1 + 3, 1 + 4
    p.descend(gradient());                                  // 12 and 20
    CHECK(copied(p.values()) == std::vector<double>{-2, -4});
}

TEST_CASE("weights come back bit for bit, whatever they are", "[sam]") {
    auto const optimizer = gs::make_updater<gs::mixed<gs::bfloat16>>(gs::sgd{}, gs::constant{0.0}, backend);
    std::vector<gs::bfloat16> w, g;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        w.push_back(std::bit_cast<gs::bfloat16>(static_cast<std::uint16_t>(bits)));
        g.emplace_back(1.0f);
    }
    gs::parameter p{optimizer, w};
    p.ascend(g);
    p.restore();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < w.size(); ++i)
        wrong += std::bit_cast<std::uint16_t>(p.values()[i]) != std::bit_cast<std::uint16_t>(w[i]);
    CHECK(wrong == 0);
}

TEST_CASE("a gradient of zeros, and a rho of 0, move nothing", "[sam]") {
    gs::parameter p{momentum(), weights_of(5)};
    CHECK(p.ascend(std::vector<float>(5), {.epsilon = 0}).norm == 0);
    CHECK(copied(p.values()) == weights_of(5));
    p.restore();
    p.ascend(gradient_of(5, 1), {.rho = 0});
    CHECK(copied(p.values()) == weights_of(5));
}

TEST_CASE("the halves of a parameter are refused in another order", "[sam]") {
    gs::parameter p{adam(), weights_of(5)};
    auto const g = gradient_of(5, 1);
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    CHECK(refused([&] { p.descend(g); }) == "descend: the weights have not been moved; expected ascend() first");
    p.ascend(g);
    auto const moved = copied(p.values());
    CHECK(refused([&] { p.ascend(g); }) ==
          "ascend: ascend() has moved the weights; expected descend() or restore() first");
    CHECK(refused([&] { p.update(g); }) ==
          "update: ascend() has moved the weights; expected descend() or restore() first");
    CHECK(refused([&] { p.save("never.safetensors"); }) ==
          "save: ascend() has moved the weights; expected descend() or restore() first");
    CHECK(refused([&] { static_cast<void>(p.as_slice(g)); }) ==
          "as_slice: ascend() has moved the weights; expected descend() or restore() first");
    gs::averager average{gs::ema{0.9}, weights_of(5)};
    CHECK(refused([&] { average.add(p); }) ==
          "averager::add: ascend() has moved the weights; expected descend() or restore() first");

    // A check that fails leaves everything: the same step can be taken with another gradient.
    CHECK_THROWS_AS(p.descend(std::vector<float>(4)), gs::size_error);
    CHECK_THROWS_AS(p.descend(g, {.rate_scale = -1}), gs::value_error);
    CHECK(copied(p.values()) == moved);
    CHECK(p.is_ascended());
    p.restore();
    CHECK(copied(p.values()) == weights_of(5));
    CHECK(p.clock().step == 0);
    CHECK_THROWS_AS(p.restore(), gs::sequence_error);
}

TEST_CASE("ascend refuses what it cannot measure before anything moves", "[sam]") {
    auto g = gradient_of(5, 1);
    g[3] = infinity;
    gs::parameter propagates{adam(), weights_of(5)},
        skips{adam(), weights_of(5), {.on_nonfinite = gs::nonfinite::skip}};
    CHECK(refusal<gs::value_error>([&] { propagates.ascend(g); }) ==
          "ascend: the norm of the gradient is inf; expected finite gradients; on_nonfinite = skip leaves such steps "
          "out");
    auto const result = skips.ascend(g);
    CHECK(!result.applied);
    CHECK(result.nonfinite == std::size_t{3});
    CHECK(!skips.is_ascended());
    CHECK(copied(skips.values()) == weights_of(5));
    CHECK(refusal<gs::value_error>([&] { skips.ascend(gradient_of(5, 1), {.rho = -1}); }) ==
          "sam_options.rho: -1 is out of range; expected finite and >= 0");
    CHECK_THROWS_AS(skips.ascend(std::vector<float>(4)), gs::size_error);

    // In the second half, a step that is skipped restores the weights.
    skips.ascend(gradient_of(5, 1));
    CHECK(!skips.descend(g).applied);
    CHECK(copied(skips.values()) == weights_of(5));
    CHECK(!skips.is_ascended());

    std::vector<gs::bfloat16> copy(5);
    gs::parameter copied_to{adam(), weights_of(5), {.bfloat16_copy = copy}};
    CHECK_THROWS_AS(copied_to.ascend(gradient_of(5, 1)), gs::value_error);
    auto const counts = gs::make_updater<std::int32_t>(gs::add_delta{}, gs::constant{1.0}, backend);
    gs::parameter integers{counts, std::vector<std::int32_t>(5)};
    CHECK(refusal<gs::value_error>([&] { integers.ascend(std::vector<std::int32_t>(5)); }) ==
          "ascend: integers hold counts, which have no direction; expected floating-point elements");
}

TEST_CASE("the halves of a model are refused in another order", "[sam]") {
    gs::model net{{.on_nonfinite = gs::nonfinite::skip}};
    std::vector<float> w = weights_of(7), m(7), g = gradient_of(7, 1);
    net.add("a", gs::parameter{adam(), weights_of(5)});
    net.add("b", momentum(), {w, g, m});
    auto const of_a = gradient_of(5, 1);
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    CHECK(refused([&] {
              net.descend({{"a", of_a}});
          }) == "descend: the weights have not been moved; expected ascend() first");
    CHECK_THROWS_AS(net.ascend(), gs::value_error); // a has no gradient
    CHECK(w == weights_of(7));
    net.ascend({{"a", of_a}});
    CHECK(net.is_ascended());
    std::string const expected = " ascend() has moved the weights; expected descend() or restore() first";
    CHECK(refused([&] { net.ascend({{"a", of_a}}); }) == "ascend:" + expected);
    CHECK(refused([&] { net.update({{"a", of_a}}); }) == "update:" + expected);
    CHECK(refused([&] { net.save("never.safetensors"); }) == "save:" + expected);
    CHECK(refused([&] { net.load("never.safetensors"); }) == "load:" + expected);
    auto const moved = w;
    CHECK_THROWS_AS(net.descend({{"a", std::vector<float>(4)}}), gs::size_error);
    CHECK(w == moved);
    CHECK(net.is_ascended());
    net.restore();
    CHECK(w == weights_of(7));
    CHECK(!net.is_ascended());

    net.ascend({{"a", of_a}});
    g[2] = infinity;
    auto const result = net.descend({{"a", of_a}});
    CHECK(!result.applied);
    CHECK(w == weights_of(7));
    CHECK(net.clock("b").step == 0);
    CHECK(!net.ascend({{"a", of_a}}).applied);
    CHECK(!net.is_ascended());
}

TEST_CASE("parameters of a model are locked between its halves", "[sam]") {
    using type = decltype(adam());
    gs::model net;
    std::vector<float> w = weights_of(7), m(7), g = gradient_of(7, 1);
    net.add("a", gs::parameter{adam(), weights_of(5)});
    net.add("b", momentum(), {w, g, m});
    auto const of_a = gradient_of(5, 1);
    gs::parameter<type>& a = net.get<type>("a");
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    std::string const expected = " ascend() has moved the weights; expected descend() or restore() first",
                      of_model = " ascend() of the model has moved the weights; expected descend() or restore() of the "
                                 "model first";
    gs::averager average{gs::ema{0.9}, weights_of(5)};
    folder const files;
    std::string const file = files / "a.safetensors";
    a.save(file);
    auto const check_locked = [&] {
        auto const moved = copied(a.values());
        CHECK(a.is_ascended());
        CHECK(refused([&] { a.update(of_a); }) == "update:" + expected);
        CHECK(refused([&] { a.ascend(of_a); }) == "ascend:" + expected);
        CHECK(refused([&] { a.save("never.safetensors"); }) == "save:" + expected);
        CHECK(refused([&] { a.load(file); }) == "load:" + expected);
        CHECK(refused([&] { static_cast<void>(a.as_slice(of_a)); }) == "as_slice:" + expected);
        CHECK(refused([&] { average.add(a); }) == "averager::add:" + expected);
        CHECK(refused([&] { a.descend(of_a); }) == "descend:" + of_model);
        CHECK(refused([&] { a.restore(); }) == "restore:" + of_model);
        CHECK(copied(a.values()) == moved);
        CHECK(a.clock().step == 0);
    };
    net.ascend({{"a", of_a}});
    check_locked();
    // A check of `descend` that fails, before and after the first parameter is prepared.
    CHECK_THROWS_AS(net.descend({{"a", std::vector<float>(4)}}), gs::size_error);
    check_locked();
    CHECK_THROWS_AS(net.descend({{"a", of_a}}, {.rate_scale = -1}), gs::value_error);
    check_locked();
    net.seek("b", {.step = std::numeric_limits<std::int64_t>::max()});
    CHECK_THROWS_AS(net.descend({{"a", of_a}}), gs::value_error);
    check_locked();
    net.seek("b", {});
    net.descend({{"a", of_a}});
    CHECK(!a.is_ascended());
    gs::parameter plain{adam(), weights_of(5)};
    plain.update(of_a);
    CHECK(copied(a.values()) == copied(plain.values()));
    a.update(of_a);

    auto const trained = copied(a.values());
    net.ascend({{"a", of_a}});
    CHECK(a.is_ascended());
    net.restore();
    CHECK(!a.is_ascended());
    CHECK(copied(a.values()) == trained);
    a.update(of_a);
}

TEST_CASE("a model does not step while one of its parameters is ascended", "[sam]") {
    auto const averaging = gs::make_updater<float>(gs::averaged{gs::sgd{}, gs::ema{0.5}}, gs::constant{0.5}, backend);
    using type = decltype(averaging);
    gs::model net;
    net.add("b", gs::parameter{momentum(), weights_of(7)});
    net.add("a", gs::parameter{averaging, weights_of(5)});
    auto const of_a = gradient_of(5, 1), of_b = gradient_of(7, 1);
    std::vector<gs::named_gradient> const gradients{{"b", of_b}, {"a", of_a}};
    auto& a = net.get<type>("a");
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    std::string const expected = " ascend() has moved the weights; expected descend() or restore() first";
    a.ascend(of_a);
    CHECK(refused([&] { net.update(gradients); }) == "a: as_slice:" + expected);
    CHECK(refused([&] { net.ascend(gradients); }) == "a: as_slice:" + expected);
    CHECK(refused([&] { net.save("never.safetensors"); }) == "save or load:" + expected);
    CHECK(refused([&] { static_cast<void>(net.average("a")); }) == "average:" + expected);
    CHECK(refused([&] { static_cast<void>(a.average()); }) == "average:" + expected);
    CHECK(refused([&] { static_cast<void>(net.apply_average()); }) == "apply_average:" + expected);
    CHECK(copied(net.get<decltype(momentum())>("b").values()) == weights_of(7));
    CHECK(net.clock("b").step == 0);
    CHECK(!net.is_ascended());
    CHECK(a.is_ascended());
    a.restore();
    CHECK(copied(a.values()) == weights_of(5));
    CHECK(net.update(gradients).applied);
}

TEST_CASE("a model takes no parameter between its halves", "[sam]") {
    gs::model net;
    net.add("a", gs::parameter{adam(), weights_of(5)});
    auto const of_a = gradient_of(5, 1);
    std::vector<float> w = weights_of(7), m(7), g = gradient_of(7, 1);
    net.ascend({{"a", of_a}});
    auto const refused = [](auto const& f) { return refusal<gs::sequence_error, std::logic_error>(f); };
    std::string const expected = "add: ascend() has moved the weights; expected descend() or restore() first";
    CHECK(refused([&] { net.add("b", gs::parameter{adam(), weights_of(5)}); }) == expected);
    CHECK(refused([&] { net.add("b", momentum(), {w, g, m}); }) == expected);
    CHECK(net.size() == 1);
    net.descend({{"a", of_a}});
    net.add("b", momentum(), {w, g, m});
    CHECK(net.update({{"a", of_a}}).applied);
}
