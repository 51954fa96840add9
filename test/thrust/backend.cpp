// The Thrust backend against the serial one: the same bits, for every element, with a rule of each
// shape. rules.cpp has all rules. Compiled for Thrust's OMP system, and as test/cuda/thrust.cu for
// CUDA.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gradstep/gradstep.hpp>
#include <support/catch.hpp>
#include <support/edited.hpp>
#include <thrust/runs.hpp>

// Without state, with state, with what runs after the rule, row-wise.
TEMPLATE_TEST_CASE("Thrust gives the bits of the serial backend for rules of every shape", "", gs::sgd, gs::ftrl,
                   (gs::averaged<gs::adam, gs::ema>), (gs::averaged<gs::sgd, gs::window>), gs::lamb) {
    TestType rule{};
    if constexpr (requires { rule.average.rate; }) rule.average = {.rate = 1, .min = 1, .max = 2}; // it has no default
    CHECK(trains_alike<float>(4097, 1, {}, one_call, rule, falling));
    CHECK(trains_alike<float, device_backend>(4097, 1, {}, one_call, rule, falling));
    CHECK(trains_alike<gs::bfloat16>(4099, 0, {}, one_call, rule, falling));
    CHECK(trains_alike<gs::bfloat16>(4099, 1, {}, one_call, rule, falling));
    CHECK(trains_alike<gs::mixed<gs::bfloat16>>(4097, 0, {}, one_call, rule, falling));
}

TEMPLATE_TEST_CASE("Thrust gives the bits of the serial backend for every element", "", double, gs::float16,
                   gs::stochastic<gs::bfloat16>) {
    for (std::size_t const offset : {0u, 1u})
        CHECK(trains_alike<TestType>(4099, offset, {}, one_call, gs::adam{}, falling));
}

TEST_CASE("Thrust goes on from weights that other code has changed beside their master copies") {
    auto const after_changes = [](bool may_be_nonfinite) {
        return [=](auto const& step, auto& x) {
            std::vector<gs::bfloat16> weights(x.weight.size());
            thrust::copy(x.weight.begin(), x.weight.end(), weights.begin());
            for (auto& w : weights) // whose bits differ on a GPU, and are edited
                if (float const value(w); value != value) w = gs::bfloat16(std::numeric_limits<float>::quiet_NaN());
            edit<gs::bfloat16>(weights, static_cast<std::uint32_t>(step.number()), may_be_nonfinite);
            thrust::copy(weights.begin(), weights.end(), x.weight.begin());
            x.take(step);
        };
    };
    for (std::size_t const offset : {0u, 1u}) {
        CHECK(trains_alike<gs::mixed<gs::bfloat16>>(4097, offset, {}, after_changes(true), gs::adam{}, falling));
        CHECK(trains_alike<gs::mixed<gs::bfloat16>, device_backend>(4097, offset, {}, after_changes(true), gs::adam{},
                                                                    falling));
        CHECK(trains_alike<gs::mixed<gs::bfloat16>, device_backend>(4097, offset, {}, after_changes(false), gs::lamb{},
                                                                    falling));
    }
}

TEST_CASE("Thrust gives the bits of the serial backend under every regularizer and option") {
    auto const alike = [](auto regularizer, gs::step_options const& options = {}) {
        return trains_alike<float>(4099, 0, options, one_call, gs::adam{}, regularizer, gs::constant{0.1});
    };
    CHECK(alike(gs::l1{0.1}));
    CHECK(alike(gs::l2{0.1}));
    CHECK(alike(gs::elastic_net{0.1, 0.2}));
    CHECK(alike(gs::decoupled{0.1}));
    CHECK(alike(gs::proximal{gs::elastic_net{0.1, 0.2}}));
    CHECK(alike(gs::all_of{gs::clip_value{0.5}, gs::l1{0.01}, gs::proximal{gs::l1{0.1}}}));
    CHECK(alike(gs::none{}, {.gradient_scale = 0.3, .zero_gradient = true}));
    CHECK(alike(gs::l2{0.1}, {.gradient_scale = -1, .rate_scale = 0.5, .rate = 0.2}));
}

TEST_CASE("Thrust takes many tensors in one call") {
    auto const slices = [](auto const& step, auto& x) {
        auto plain = x.slice();
        plain.decay = false;
        plain.rate_scale = 0.5;
        step(std::vector{plain});
    };
    CHECK(trains_alike<float>(4099, 0, {}, slices, gs::momentum{}, gs::l2{0.1}, gs::constant{0.1}));
}

#if !defined(__CUDACC__)
TEST_CASE("Thrust's CPU systems run blocks of 8 bits, with the bits of the serial backend") {
    auto const n = std::size_t{3 * 4096 + 77};
    auto const initial = numbers<float>(n, 0);
    gs::parameter here{gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.1}, gs::serial_backend{}),
                       initial};
    gs::parameter there{gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{0.1}, gs::thrust_backend{}),
                        initial};
    for (std::uint32_t t = 1; t < 4; ++t) {
        auto const gradient = numbers<float>(n, t);
        here.update(gradient);
        there.update(gradient);
    }
    std::vector<float> out(n);
    there.copy_to(out);
    CHECK(std::equal(out.begin(), out.end(), here.values().begin()));
}
#endif

TEST_CASE("a parameter on Thrust owns its memory and copies out") {
    auto const initial = numbers<float>(1003, 0), gradient = numbers<float>(1003, 1);
    gs::parameter here{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}, gs::serial_backend{}), initial};
    thrust::device_vector<gs::bfloat16> rounded(1003);
    gs::parameter there{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}, gs::thrust_backend{}),
                        initial,
                        {.bfloat16_copy = {thrust::raw_pointer_cast(rounded.data()), rounded.size()}}};
    thrust::device_vector<float> const on_device(gradient.begin(), gradient.end());
    gs::parameter again{there.optimizer(), on_device};
    std::vector<float> out(1003);
    again.copy_to(out);
    CHECK(out == gradient);
    for (int t = 0; t < 3; ++t) {
        here.update(gradient);
        there.update(on_device);
    }
    there.copy_to(out);
    CHECK(std::equal(out.begin(), out.end(), here.values().begin()));
    CHECK(same_bits(rounded, std::vector<gs::bfloat16>(out.begin(), out.end())));
    CHECK(there.clock().step == 3);
    std::vector<float> small(5);
    CHECK_THROWS_AS(there.copy_to(small), gs::size_error);
}

TEMPLATE_TEST_CASE("averages on Thrust are read, take the weights' place and give it back", "", float,
                   gs::mixed<gs::bfloat16>) {
    using storage = typename gs::element_traits<TestType>::storage;
    gs::averaged const rule{gs::momentum{}, gs::window{.rate = 1, .min = 2, .max = 3}};
    auto const initial = numbers<storage>(1003, 0);
    gs::parameter here{gs::make_updater<TestType>(rule, gs::constant{0.1}, gs::serial_backend{}), initial};
    gs::parameter there{gs::make_updater<TestType>(rule, gs::constant{0.1}, gs::thrust_backend{}), initial};
    auto const out = [](auto const& parameter) {
        std::vector<storage> values(1003);
        parameter.copy_to(values);
        return values;
    };
    auto const equal = [](auto const& a, auto const& b) {
        return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
    };
    for (std::uint32_t t = 0; t < 6; ++t) { // windows close after steps 2 and 5
        CHECK(equal(there.average(), here.average()));
        auto const gradient = numbers<storage>(1003, 1 + t);
        here.update(gradient);
        there.update(thrust::device_vector<storage>(gradient.begin(), gradient.end()));
    }
    auto const trained = out(here);
    CHECK(equal(out(there), trained));
    {
        auto const applied_here = here.apply_average();
        auto const applied_there = there.apply_average();
        CHECK_FALSE(equal(out(here), trained));
        CHECK(equal(out(there), out(here)));
        CHECK(equal(there.average(), here.average()));
        CHECK_THROWS_AS(there.update(thrust::device_vector<storage>(1003)), gs::sequence_error);
    }
    CHECK(equal(out(there), trained));
}

TEST_CASE("the global norm has the same bits on Thrust") {
    gs::thrust_backend<> const blocks; // one for all, which keeps its memory
    device_backend const threads;
    for (std::size_t const n : {100003u, 0u, 1u, 31u, 33u, 4096u, 4097u, 200003u}) {
        auto const g = numbers<float>(n, 1);
        thrust::device_vector<float> const on_device(g.begin(), g.end());
        CHECK(gs::global_norm(blocks, on_device) == gs::global_norm(gs::serial_backend{}, g));
        CHECK(gs::global_norm(threads, on_device) == gs::global_norm(gs::serial_backend{}, g));
    }
}
