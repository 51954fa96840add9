// On Thrust as on the host: stochastic rounding, gradients that are not finite, and models.
#include <gradstep/gradstep.hpp>
#include <gradstep/thrust.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <thrust/copy.h>
#include <thrust/device_vector.h>

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace gs = gradstep;

namespace {

template <class S> thrust::device_vector<S> on_device(std::vector<S> const& x) { return {x.begin(), x.end()}; }

} // namespace

TEMPLATE_TEST_CASE("first_nonfinite finds the first on Thrust", "[thrust]", float, double, gs::bfloat16, gs::float16) {
    auto const found_in =
        [](std::vector<TestType> const& gradient) { // by packs on a CPU; by Thrust's search as on a device
            auto const found = gs::first_nonfinite(gs::thrust_backend{}, on_device(gradient));
            gs::thrust_backend<std::remove_cvref_t<decltype(thrust::device)>, gs::detail::device_threads> const threads;
            CHECK(gs::first_nonfinite(threads, on_device(gradient)) == found);
            return found;
        };
    auto x = numbers<TestType>(10'000, 1);
    CHECK(!found_in(x));
    CHECK(!found_in({}));
    for (std::size_t const at : {std::size_t(9999), std::size_t(5000), std::size_t(0)}) {
        x[at] =
            TestType(at == 5000 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity());
        CHECK(found_in(x) == gs::nonfinite_element{0, at});
    }
}

TEST_CASE("an integer is finite on Thrust", "[thrust]") {
    CHECK(!gs::first_nonfinite(gs::thrust_backend{}, on_device(numbers<std::int64_t>(100, 1))));
}

TEMPLATE_TEST_CASE("stochastic rounding has the same bits on Thrust", "[thrust]", gs::bfloat16, gs::float16) {
    std::size_t const n = 100'003;
    auto const g = numbers<TestType>(n, 7);
    auto const run = [&](auto const& backend, auto const& gradient) {
        auto const optimizer = gs::make_updater<gs::stochastic<TestType>>(gs::adam{}, gs::constant{0.01}, backend);
        gs::parameter weights{optimizer, numbers<TestType>(n, 1), {.id = 5}};
        for (int t = 0; t < 3; ++t) weights.update(gradient, {.seed = 3});
        std::vector<TestType> out(n);
        weights.copy_to(out);
        return out;
    };
    CHECK(same_bits(run(gs::thrust_backend{}, on_device(g)), run(gs::serial_backend{}, g)));
}

TEST_CASE("a model has parameters on Thrust beside those of the host", "[thrust]") {
    auto const thrust_adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.125}, gs::thrust_backend{});
    auto const host_adam = gs::make_updater<float>(gs::adam{}, gs::constant{0.125});
    std::size_t const n = 5000;
    std::vector<float> const initial = numbers<float>(n, 1), g = numbers<float>(n, 2);
    gs::thread_pool pool(2);
    gs::model net{pool, {.clip_norm = 1, .on_nonfinite = gs::nonfinite::skip}};
    net.add("thrust", gs::parameter{thrust_adam, initial});
    net.add("host", gs::parameter{host_adam, initial});

    auto const device_gradient = on_device(g);
    auto const result = net.update({{"thrust", device_gradient}, {"host", g}});
    double const squares = gs::detail::sum_of_squares_in(gs::serial_backend{}, g);
    CHECK(result.applied);
    CHECK(result.norm == std::sqrt(squares + squares));

    auto broken = g;
    broken[17] = std::numeric_limits<float>::quiet_NaN();
    auto const broken_gradient = on_device(broken);
    auto const skipped = net.update({{"host", g}, {"thrust", broken_gradient}});
    CHECK(!skipped.applied);
    CHECK(skipped.nonfinite == std::pair(std::string("thrust"), std::size_t(17)));

    std::vector<float> a(n), b(n);
    net.get<std::remove_const_t<decltype(thrust_adam)>>("thrust").copy_to(a);
    net.get<std::remove_const_t<decltype(host_adam)>>("host").copy_to(b);
    CHECK(same_bits(a, b));
}

TEST_CASE("a model steps over memory of the host's on Thrust beside that of the CPU", "[thrust]") {
    gs::averaged const adam{gs::adam{}, gs::ema{0.5}};
    auto const thrust_adam = gs::make_updater<float>(adam, gs::constant{0.125}, gs::thrust_backend{});
    auto const host_adam = gs::make_updater<float>(adam, gs::constant{0.125});
    std::size_t const n = 5000;
    std::vector<float> w = numbers<float>(n, 1), g = numbers<float>(n, 2), m(n), v(n), average = w;
    auto device_w = on_device(w), device_g = on_device(g), device_m = on_device(m), device_v = on_device(v),
         device_average = device_w;
    gs::model net{{.clip_norm = 1}};
    net.add("thrust", thrust_adam, {device_w, device_g, device_m, device_v, device_average});
    net.add("host", host_adam, {w, g, m, v, average});
    for (int t = 0; t < 2; ++t) net.update();

    net.update({{"thrust", device_g}, {"host", g}}, {.zero_gradient = true});
    std::vector<float> from_device(n);
    thrust::copy(device_w.begin(), device_w.end(), from_device.begin());
    CHECK(same_bits(from_device, w));
    thrust::copy(device_g.begin(), device_g.end(), from_device.begin());
    CHECK((from_device == std::vector<float>(n) && g == from_device));

    auto const weights_of_device = [&] {
        thrust::copy(device_w.begin(), device_w.end(), from_device.begin());
        return from_device;
    };
    auto const trained = w;
    {
        auto const applied = net.apply_average();
        CHECK(same_bits(w, average));
        CHECK(same_bits(weights_of_device(), average));
    }
    CHECK((same_bits(w, trained) && same_bits(weights_of_device(), trained)));
}

TEST_CASE("a step of several tensors is whole on Thrust's CPU systems, whichever memory there is none of", "[thrust]") {
    // Each tensor needs more memory for its sums than the one before: it must not be missed when
    // others have moved.
    std::vector<std::size_t> const sizes{100, 300'003, 900'007};
    struct buffers {
        std::vector<float> w, g, m, v;
    };
    auto const run = [&](auto const& backend, std::size_t failure) {
        auto optimizer = gs::make_updater<float>(gs::lamb{}, gs::constant{0.01}, backend);
        std::vector<buffers> all;
        std::vector<gs::slice<decltype(optimizer)>> slices;
        for (std::size_t const n : sizes)
            all.push_back({numbers<float>(n, 1), numbers<float>(n, 2), std::vector<float>(n), std::vector<float>(n)});
        for (buffers& x : all) slices.emplace_back(x.w, x.g, x.m, x.v);
        auto const step = optimizer.next_step();
        allocations_until_failure = failure;
        step(slices);
        bool const has_failed = allocations_until_failure == SIZE_MAX;
        allocations_until_failure = SIZE_MAX;
        std::vector<float> out;
        for (buffers const& x : all)
            for (auto const* each : {&x.w, &x.m, &x.v}) out.insert(out.end(), each->begin(), each->end());
        return std::pair(out, has_failed);
    };
    auto const expected = run(gs::simd_backend{}, SIZE_MAX).first;
#if defined(COUNTS_ALLOCATIONS)
    std::size_t failures = 0;
    while (true) {
        auto const [weights, has_failed] = run(gs::thrust_backend{}, failures);
        REQUIRE(same_bits(weights, expected));
        if (!has_failed) break;
        ++failures;
    }
    CHECK(failures > sizes.size()); // what is kept for calls, and the sums of each tensor
#endif
}
