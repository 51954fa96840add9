// Elements and backends of the user's, with no more than docs/how_to/add_a_backend.md asks of them,
// in all that takes a standard one.
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace gs = gradstep;

namespace {

/// Fixed point, converted by way of Number; the most negative number stands for what is not finite.
template <class Number> struct fixed {
    std::int16_t units = 0;

    fixed() = default;
    GRADSTEP_HD explicit fixed(Number x) : units(static_cast<std::int16_t>(std::lrint(x * 256))) {}
    GRADSTEP_HD explicit operator Number() const {
        return units == std::numeric_limits<std::int16_t>::min() ? std::numeric_limits<Number>::quiet_NaN()
                                                                 : static_cast<Number>(units) / 256;
    }
};
template <class Number> struct fixed_element {};

/// What a backend has to have.
// [backend]
struct plain_backend {
    using memory_space = gs::host_memory;
    template <class T> using buffer = std::vector<T>;

    template <class Batch> void run(Batch const& batch) const {
        for (std::size_t k = 0; k < batch.count(); ++k)
            batch.visit(k, [&](auto const& kernel) {
                using compute = typename std::remove_cvref_t<decltype(kernel)>::traits::compute;
                for (std::size_t i = 0; i < batch.size(k); ++i) kernel.template at<compute>(i, gs::all_lanes{});
            });
    }
    template <class T> static buffer<T> copy_of(std::span<T const> x, gs::host_memory) { return {x.begin(), x.end()}; }
    template <class T> static T* data(buffer<T>& b) { return b.data(); }
    template <class T> static void copy_to_host(std::span<T const> from, std::span<T> to) {
        std::copy(from.begin(), from.end(), to.begin());
    }
};
static_assert(gs::backend<plain_backend>);
// [backend]

} // namespace

template <class Number>
struct gs::element_traits<fixed_element<Number>> : gs::basic_element<fixed<Number>, Number, false> {
    static constexpr char const* name = "fixed";
};

TEMPLATE_TEST_CASE("an element with a storage type of its own", "[core]", float, double) {
    using storage = fixed<TestType>;
    auto const check = [](auto const& backend) {
        auto optimizer = gs::make_updater<fixed_element<TestType>>(gs::momentum{}, gs::constant{0.5}, backend);
        using updater = decltype(optimizer);
        std::vector<storage> const ones(37, storage(1)), halves(37, storage(0.5));
        gs::parameter weights{optimizer, ones, {.on_nonfinite = gs::nonfinite::skip}};
        CHECK(weights.update(halves).applied);
        CHECK(weights.values()[36].units == 192);

        auto bad = halves;
        bad[35].units = std::numeric_limits<std::int16_t>::min();
        CHECK(weights.update(bad).nonfinite == std::optional<std::size_t>(35));
        CHECK(gs::first_nonfinite(backend, bad) == gs::nonfinite_element{0, 35});
        CHECK(gs::global_norm(backend, halves) == std::sqrt(37 * 0.25));

        gs::model net{{.clip_norm = 1e6, .on_nonfinite = gs::nonfinite::raise}};
        net.add("w", gs::parameter{optimizer, ones});
        CHECK(net.update({{"w", halves}}).norm == std::optional(std::sqrt(37 * 0.25)));
        CHECK(net.template get<updater>("w").values()[0].units == 192);
        CHECK_THROWS_AS(net.update({{"w", bad}}), gs::nonfinite_error);
    };
    check(gs::simd_backend{});
    check(gs::serial_backend{});
    check(plain_backend{});
}

TEST_CASE("a backend that only runs", "[core]") {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{0.5}, plain_backend{});
    using updater = decltype(optimizer);
    std::vector<float> const start{1, 2, 3}, infinite{1, 2, std::numeric_limits<float>::infinity()};
    std::vector<float> g{3, 0, 4};
    CHECK(gs::global_norm(optimizer.backend(), g) == 5);
    CHECK(gs::first_nonfinite(optimizer.backend(), infinite) == gs::nonfinite_element{0, 2});

    gs::parameter weights{optimizer, start, {.on_nonfinite = gs::nonfinite::skip}};
    gs::parameter wanted{gs::make_updater<float>(gs::adam{}, gs::constant{0.5}), start};
    CHECK(weights.update(infinite).nonfinite == std::optional<std::size_t>(2));
    weights.update(g);
    wanted.update(g);
    std::vector<float> copied(3);
    weights.copy_to(copied);
    CHECK(copied == std::vector<float>(weights.values().begin(), weights.values().end()));
    gs::model net{{.clip_norm = 5}};
    net.add("w", gs::parameter{optimizer, start});
    CHECK(net.update({{"w", g}}, {.zero_gradient = true}).norm == std::optional(5.0));
    CHECK(g == std::vector<float>(3));
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(weights.values()[i] == wanted.values()[i]);
        CHECK(net.get<updater>("w").values()[i] == wanted.values()[i]);
    }
}
