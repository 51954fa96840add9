// Integer elements: add_delta on counters.
#include <gradstep/gradstep.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

// Whole numbers over all of T.
template <class T> std::vector<T> integers(std::size_t n, std::uint64_t seed) {
    std::vector<T> out;
    std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (std::size_t i = 0; i < n; ++i) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out.push_back(static_cast<T>(static_cast<std::make_unsigned_t<T>>(x >> (64 - 8 * sizeof(T)))));
    }
    return out;
}
// w + rate * scale * g modulo 2^bits, as unsigned numbers do.
template <class T> std::vector<T> expected(std::vector<T> w, std::vector<T> const& g, T factor) {
    using U = std::make_unsigned_t<T>;
    for (std::size_t i = 0; i < w.size(); ++i)
        w[i] = static_cast<T>(static_cast<U>(static_cast<std::uint64_t>(static_cast<U>(factor)) * static_cast<U>(g[i]) +
                                             static_cast<U>(w[i])));
    return w;
}

/// A user's rule on integers:  w <- w - rate * g
struct take_away {
    static constexpr bool takes_integers = true;
    template <class X> struct state {};
    static constexpr std::array<char const*, 0> state_names{};
    template <class T> struct coeffs { T rate; };
    template <class T> coeffs<T> prepare(gs::step_info now) const { return {T(now.rate)}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const& c, V& w, V g, state<V>&) {
        w = gs::math::fma(V(c.rate), -g, w);
    }
};

} // namespace

TEMPLATE_TEST_CASE("a rule of the user's has the same integers in packs and in their tails", "[core][integers]",
                   std::int32_t, std::int64_t) {
    std::vector<TestType> const g = integers<TestType>(37, 2), before = integers<TestType>(37, 1);
    auto const wanted = expected<TestType>(before, g, -3);
    auto const check = [&](auto const& backend) {
        auto w = before;
        gs::make_updater<TestType>(take_away{}, gs::constant{3}, backend).next_step()(w, g);
        CHECK(w == wanted);
    };
    check(gs::simd_backend{});
    check(gs::serial_backend{});
}

TEMPLATE_TEST_CASE("add_delta adds whole numbers and wraps around", "[core][integers]", std::int32_t, std::int64_t) {
    gs::thread_pool pool(3);
    auto const check = [](auto const& backend, std::size_t n) {
        auto optimizer = gs::make_updater<TestType>(gs::add_delta{}, gs::external{}, backend);
        auto const g = integers<TestType>(n, 2);
        for (double const rate : {1.0, 0.0, 3.0}) {
            auto w = integers<TestType>(n, 1);
            auto const wanted = expected<TestType>(w, g, static_cast<TestType>(rate));
            optimizer.next_step({.rate = rate})(w, g);
            CHECK(w == wanted);

            w = integers<TestType>(n, 1);
            auto const negative = expected<TestType>(w, g, static_cast<TestType>(-2 * rate));
            auto cleared = g;
            optimizer.next_step({.gradient_scale = -2, .zero_gradient = true, .rate = rate})(w, cleared);
            CHECK(w == negative);
            CHECK(cleared == std::vector<TestType>(n));
        }
    };
    for (std::size_t const n : {0u, 1u, 7u, 8u, 9u, 1003u}) {
        check(gs::serial_backend{}, n);
        check(gs::simd_backend{}, n);
    }
    check(gs::simd_backend{pool}, 200'003);

    using limits = std::numeric_limits<TestType>;
    std::vector<TestType> w{limits::max(), limits::min()}, g{1, -1};
    gs::make_updater<TestType>(gs::add_delta{}, gs::constant{1}).next_step()(w, g);
    CHECK(w == std::vector<TestType>{limits::min(), limits::max()});
}

TEST_CASE("an int64 keeps what a double does not", "[core][integers]") {
    std::vector<std::int64_t> w{(std::int64_t(1) << 53) + 1};
    auto optimizer = gs::make_updater<std::int64_t>(gs::add_delta{}, gs::constant{1});
    optimizer.next_step()(w, std::vector<std::int64_t>{(std::int64_t(1) << 54) + 3});
    CHECK(w[0] == (std::int64_t(1) << 54) + (std::int64_t(1) << 53) + 4);
    CHECK(decltype(optimizer)::slots == 0);
    CHECK(decltype(optimizer)::bytes_per_element == 24);
    CHECK(optimizer.description().find("int64") != std::string::npos);
}

TEMPLATE_TEST_CASE("scales of integers must be whole numbers that fit", "[core][integers]", std::int32_t,
                   std::int64_t) {
    auto optimizer = gs::make_updater<TestType>(gs::add_delta{}, gs::external{});
    auto const refused = [&](gs::step_options const& options) {
        std::string const text = refusal<gs::value_error>([&] { optimizer.next_step(options); });
        CHECK(optimizer.clock() == gs::clock{});
        return text;
    };
    CHECK_THAT(refused({.rate = 0.5}),
               Catch::Matchers::StartsWith("the learning rate: 0.5 is out of range; expected a whole number"));
    CHECK_THAT(refused({.rate_scale = 0.25, .rate = 2}),
               Catch::Matchers::StartsWith("the learning rate: 0.5 is out of range; expected a whole"));
    CHECK_THAT(
        refused({.gradient_scale = 1.5, .rate = 1}),
        Catch::Matchers::StartsWith("step_options.gradient_scale: 1.5 is out of range; expected a whole number"));
    CHECK_THAT(refused({.rate = 0x1p63}), ContainsSubstring("expected a whole number below"));
    CHECK_THAT(refused({.gradient_scale = -0x1p63, .rate = 1}), ContainsSubstring("expected a whole number below"));
    CHECK_THAT(refused({.rate = -1}), Catch::Matchers::StartsWith("step_options.rate: -1"));

    auto const step = optimizer.next_step({.rate = 1});
    std::vector<TestType> w{1, 2}, g{1, 1};
    std::vector<gs::slice<decltype(optimizer)>> model{{w, g}};
    model[0].rate_scale = 0.5;
    CHECK_THAT(refusal<gs::value_error>([&] { step(model); }), ContainsSubstring("expected a whole number"));
    CHECK(w == std::vector<TestType>{1, 2});
    model[0].rate_scale = 2;
    step(model);
    CHECK(w == std::vector<TestType>{3, 4});
}

TEMPLATE_TEST_CASE("counters in a parameter, a table and a model", "[core][integers]", std::int32_t, std::int64_t) {
    auto const optimizer = gs::make_updater<TestType>(gs::add_delta{}, gs::constant{1});
    gs::parameter counts{optimizer, std::vector<TestType>{5, 6, 7}, {.on_nonfinite = gs::nonfinite::skip}};
    CHECK(counts.update(std::vector<TestType>{1, -2, 3}).applied); // an integer is always finite
    CHECK((counts.values()[0] == 6 && counts.values()[1] == 4 && counts.values()[2] == 10));
    CHECK(!gs::first_nonfinite(gs::simd_backend{}, std::vector<TestType>{std::numeric_limits<TestType>::max()}));

    gs::model net{{.on_nonfinite = gs::nonfinite::raise}};
    net.add("seen", gs::parameter{optimizer, std::vector<TestType>{5, 6}});
    net.update({{"seen", std::vector<TestType>{1, 1}}});
    CHECK(net.template get<std::remove_const_t<decltype(optimizer)>>("seen").values()[1] == 7);
}

TEST_CASE("clip_norm leaves counters alone", "[core][integers][model]") {
    auto const count = gs::make_updater<std::int64_t>(gs::add_delta{}, gs::constant{1});
    auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    gs::model net{{.clip_norm = 5}};
    net.add("weights", gs::parameter{sgd, std::vector<float>(2)});
    net.add("seen", gs::parameter{count, std::vector<std::int64_t>{5}});
    auto const result = net.update({{"weights", std::vector<float>{6, 8}}, {"seen", std::vector<std::int64_t>{100}}});
    CHECK(result.norm == std::optional(10.0));
    CHECK(net.get<std::remove_const_t<decltype(count)>>("seen").values()[0] == 105);
    CHECK(net.get<std::remove_const_t<decltype(sgd)>>("weights").values()[1] == -4);
}
