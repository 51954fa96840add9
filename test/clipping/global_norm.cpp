// The Euclidean norm of gradients and the scale that clips it.
#include <gradstep/gradstep.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"
#include "support/thread_counts.hpp"

namespace gs = gradstep;

namespace {

// The norm in long double, and how far a double that is summed as number/detail/reduce.hpp says may be from
// it: every term passes through at most 128 additions of its column, 5 folds and one addition for
// each block; all terms are positive, so each costs at most half an ulp of the sum, the root halves
// the relative error and adds its own.
template <class T> void check_norm(std::vector<T> const& x, double norm) {
    using compute = typename gs::element_traits<T>::compute;
    long double sum = 0;
    for (T const each : x) {
        auto const wide = static_cast<long double>(static_cast<compute>(each));
        sum += wide * wide;
    }
    long double const exact = std::sqrt(sum);
    auto const n = static_cast<long double>(x.size());
    long double const half_ulp = 0x1p-53L, own = n * 0x1p-64L; // of the reference
    long double const bound = exact * ((128 + 5 + n / 4096 + 1) / 2 + 1) * half_ulp + exact * own;
    INFO("n = " << x.size());
    CHECK(std::abs(static_cast<long double>(norm) - exact) <= bound);
}

} // namespace

TEMPLATE_TEST_CASE("the norm is that of long double within its bound", "[core]", float, double, gs::bfloat16) {
    for (std::size_t n : {0u, 1u, 2u, 31u, 32u, 33u, 4095u, 4096u, 4097u, 100'003u}) {
        auto const x = numbers<TestType>(n, 3);
        check_norm(x, gs::global_norm(gs::serial_backend{}, x));
    }
    CHECK(gs::global_norm(gs::serial_backend{}, std::vector<TestType>{}) == 0);
    CHECK(gs::global_norm(gs::serial_backend{}, std::vector<TestType>{TestType(3.0f), TestType(-4.0f)}) == 5);
}

TEST_CASE("the norm of huge and tiny floats neither overflows nor vanishes", "[core]") {
    std::vector<float> const huge(5000, 1e30f), tiny(5000, 1e-30f);
    check_norm(huge, gs::global_norm(gs::simd_backend{}, huge));
    check_norm(tiny, gs::global_norm(gs::simd_backend{}, tiny));
    std::vector<float> const largest(4, std::numeric_limits<float>::max());
    CHECK(gs::global_norm(gs::simd_backend{}, largest) == 2 * double(std::numeric_limits<float>::max()));
}

TEST_CASE("the norm of doubles whose squares overflow or vanish is what it is, and clips", "[core]") {
    gs::thread_pool pool(2);
    auto const norm = [&](auto const& gradients) {
        double const by_packs = gs::global_norm(gs::simd_backend{pool}, gradients);
        CHECK(by_packs == gs::global_norm(gs::serial_backend{}, gradients));
        return by_packs;
    };
    for (double const scale : {0x1p-1000, 0x1p-600, 0x1p-480, 0x1p-440, 0x1p510, 0x1p512, 0x1p1000}) {
        CAPTURE(scale);
        std::vector<double> x = numbers<double>(200'000, 3);
        double const unscaled = norm(x);
        for (double& each : x) each *= scale;
        // A power of two scales exactly, unless an element is lost below 2^-1022, or is found
        // beyond: within a rounding.
        CHECK(std::abs(norm(x) / scale - unscaled) <= 0x1p-50 * unscaled);
        std::vector<std::vector<double>> const gradients{{3 * scale}, {}, {4 * scale}};
        CHECK(norm(gradients) == 5 * scale);
        CHECK(gs::clip_scale(norm(gradients), 2.5 * scale) == 0.5);
    }
    CHECK(norm(std::vector<double>{0, 0}) == 0);
    CHECK(norm(std::vector<double>(4, std::numeric_limits<double>::max())) == std::numeric_limits<double>::infinity());
}

TEST_CASE("a gradient that is not finite shows in the norm", "[core]") {
    auto x = numbers<float>(5000, 3);
    x[4321] = std::numeric_limits<float>::infinity();
    CHECK(gs::global_norm(gs::simd_backend{}, x) == std::numeric_limits<double>::infinity());
    x[17] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(gs::global_norm(gs::simd_backend{}, x)));
}

TEMPLATE_TEST_CASE("the norm has the same bits for any backend and number of threads", "[core][threads]", float, double,
                   gs::bfloat16) {
    for (std::size_t n : {0u, 5u, 4097u, 1'000'003u}) {
        auto const x = numbers<TestType>(n, 7);
        auto const bits = std::bit_cast<std::uint64_t>(gs::global_norm(gs::serial_backend{}, x));
        auto const same = [&](auto const& backend) {
            return std::bit_cast<std::uint64_t>(gs::global_norm(backend, x)) == bits;
        };
        CHECK(same(gs::simd_backend{}));
        for (std::size_t threads : thread_counts({1, 2, 3, 7})) {
            gs::thread_pool pool(threads);
            CHECK(same(gs::simd_backend{pool}));
            gs::callback_executor backwards(threads * 5, [](std::size_t parts, gs::task work) {
                while (parts != 0) work(--parts);
            });
            CHECK(same(gs::simd_backend{backwards}));
        }
    }
}

TEST_CASE("the norm of many gradients is that of all of them together", "[core]") {
    gs::serial_backend const backend;
    std::vector<std::vector<float>> gradients = {{3}, {}, {4, 12}, {84, 0}};
    CHECK(gs::global_norm(backend, gradients) == 85);
    CHECK(gs::global_norm(backend, std::vector<std::span<float const>>(gradients.begin(), gradients.end())) == 85);

    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    auto weights = gradients;
    std::vector<gs::slice<decltype(optimizer)>> model;
    for (std::size_t k = 0; k < gradients.size(); ++k) model.emplace_back(weights[k], gradients[k]);
    CHECK(gs::global_norm(backend, model) == 85);
    CHECK(gs::global_norm(backend, std::vector<std::vector<float>>{}) == 0);
}

TEST_CASE("global_norm takes tensors of several element types in one call", "[core]") {
    gs::serial_backend const backend;
    std::vector<std::vector<float>> const floats = {{3}, {4}};
    std::vector<double> const doubles = {12};
    std::vector<gs::bfloat16> gradient = {gs::bfloat16(84.0f), gs::bfloat16(0.0f)}, weight(2);
    auto optimizer = gs::make_updater<gs::bfloat16>(gs::sgd{}, gs::constant{1}, backend);
    std::vector<gs::slice<decltype(optimizer)>> const model = {{weight, gradient}};
    CHECK(gs::global_norm(backend, floats, doubles, model) == 85);
    CHECK(gs::global_norm(backend, model, doubles, floats) == 85);

    auto const x = numbers<float>(5000, 1), y = numbers<float>(300, 2);
    CHECK(gs::global_norm(backend, x, y) == gs::global_norm(backend, std::vector{x, y}));
}

TEST_CASE("a null gradient has no norm", "[core]") {
    std::span<float const> const null(static_cast<float const*>(nullptr), 3);
    CHECK(refusal<gs::buffer_error>([&] { gs::global_norm(gs::serial_backend{}, null); }) ==
          "gradient: is null; expected 3 elements of memory");
}

TEST_CASE("clip_scale brings a norm down to its limit and leaves the others", "[core]") {
    CHECK(gs::clip_scale(0, 1) == 1);
    CHECK(gs::clip_scale(0.5, 1) == 1);
    CHECK(gs::clip_scale(1, 1) == 1);
    CHECK(gs::clip_scale(4, 1) == 0.25);
    CHECK(gs::clip_scale(1e308, 1e-308) == 0); // smaller than any double
    CHECK(gs::clip_scale(std::nextafter(1, 2), 1) == 1 / std::nextafter(1, 2));
}

TEST_CASE("clip_scale refuses a norm that would spoil the weights and a limit that is none", "[core]") {
    double const infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    auto const refused = [](double norm, double limit) {
        return refusal<gs::value_error>([&] { gs::clip_scale(norm, limit); });
    };
    CHECK(refused(infinity, 1) ==
          "clip_scale: norm: inf is out of range; expected finite and >= 0; a gradient, or their norm, is not finite");
    CHECK(refused(nan, 1) ==
          "clip_scale: norm: nan is out of range; expected finite and >= 0; a gradient, or their norm, is not finite");
    CHECK_THAT(refused(-1, 1),
               Catch::Matchers::StartsWith("clip_scale: norm: -1 is out of range; expected finite and >= 0"));
    CHECK(refused(1, 0) == "clip_scale: limit: 0 is out of range; expected finite and > 0");
    CHECK(refused(1, -2) == "clip_scale: limit: -2 is out of range; expected finite and > 0");
    CHECK(refused(1, nan) == "clip_scale: limit: nan is out of range; expected finite and > 0");
    CHECK(refused(1, infinity) == "clip_scale: limit: inf is out of range; expected finite and > 0");
}

TEST_CASE("clipping by the global norm is one more number of the step", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    std::vector<float> w = {1, 1}, g = {3, 4};
    double const norm = gs::global_norm(optimizer.backend(), g);
    optimizer.next_step({.gradient_scale = gs::clip_scale(norm, 2.5)})(w, g);
    CHECK(w == std::vector<float>{-0.5f, -1});
}
