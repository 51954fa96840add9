// The Thrust backend against the serial one: the same bits, for every rule. Compiled for each of Thrust's CPU systems, and
// as test/cuda/thrust.cu for CUDA.
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include <gradstep/backends/thrust.hpp>

#include <support/catch.hpp>
#include <support/registry.hpp>

namespace gs = gradstep;

namespace {

// Numbers of either sign between 2^-8 and 2^3, no two streams alike, and some zeros; nothing becomes subnormal.
template <class S> std::vector<S> numbers(std::size_t n, std::uint32_t stream) {
    std::vector<S> out(n);
    std::uint32_t x = 12345u + 7919u * stream;
    for (S& y : out) {
        x = x * 1664525u + 1013904223u;
        float const fraction = 1.0f + static_cast<float>(x >> 9) * 0x1p-23f;
        float const scaled = fraction * static_cast<float>(1u << (x >> 5) % 11) * 0x1p-8f;
        float const value = x % 13 == 0 ? 0 : x % 2 ? scaled : -scaled;
        if constexpr (std::is_same_v<S, double>) y = static_cast<double>(value) * (1 + 1e-9);
        else y = S(value);
    }
    return out;
}

template <class S> bool same_bits(thrust::device_vector<S> const& device, std::vector<S> const& host) {
    std::vector<S> copy(device.size());
    thrust::copy(device.begin(), device.end(), copy.begin());
    return copy.size() == host.size() && std::memcmp(copy.data(), host.data(), copy.size() * sizeof(S)) == 0;
}

// Weights and state of one tensor, in containers of one memory.
template <class Updater, template <class...> class Vector> struct tensor {
    using storage = typename Updater::traits::storage;
    using state = typename Updater::traits::state;
    std::size_t first; // elements before it stay out, so that it is misaligned
    Vector<storage> weight, gradient;
    std::array<Vector<state>, Updater::slots> slots;

    tensor(Updater const& optimizer, std::size_t n, std::size_t offset) : first(offset) {
        auto const w = numbers<storage>(n + offset, 0);
        weight = Vector<storage>(w.begin(), w.end());
        gradient = Vector<storage>(n + offset);
        for (std::size_t k = 0; k < slots.size(); ++k) slots[k] = Vector<state>(Updater::slot_size(k, n) + offset);
        std::apply([&](auto&... slot) { optimizer.initialize(part(weight), part(slot)...); }, slots);
    }
    void set_gradient(std::uint32_t stream) {
        auto const g = numbers<storage>(gradient.size(), stream);
        gradient = Vector<storage>(g.begin(), g.end());
    }
    template <class T> auto part(Vector<T>& v) const {
        return std::span<T>(gs::buffer_traits<Vector<T>>::data(v) + first, v.size() - first);
    }
    auto slice() {
        return std::apply(
            [&](auto&... slot) { return gs::slice<Updater>(part(weight), part(gradient), part(slot)...); }, slots);
    }
    template <class Step> void take(Step const& step) {
        std::apply([&](auto&... slot) { step(part(weight), part(gradient), part(slot)...); }, slots);
    }
};

template <class T> using host_vector = std::vector<T>;
template <class T> using device_vector = thrust::device_vector<T>;

template <class A, class B> bool same_tensors(A const& device, B const& host) {
    bool same = same_bits(device.weight, host.weight) && same_bits(device.gradient, host.gradient);
    for (std::size_t k = 0; k < host.slots.size(); ++k) same = same && same_bits(device.slots[k], host.slots[k]);
    return same;
}

// Trains on both backends and compares; `step` applies one step to a tensor.
template <class Element, class Step, class... Policies>
bool trains_alike(std::size_t n, std::size_t offset, gs::step_options const& options, Step const& step,
                  Policies... policies) {
    auto here = gs::make_updater<Element>(policies..., gs::serial_backend{});
    auto there = gs::make_updater<Element>(policies..., gs::thrust_backend{});
    tensor<decltype(here), host_vector> on_host(here, n, offset);
    tensor<decltype(there), device_vector> on_device(there, n, offset);
    for (std::uint32_t t = 1; t <= 4; ++t) {
        on_host.set_gradient(t);
        on_device.set_gradient(t);
        step(here.next_step(options), on_host);
        step(there.next_step(options), on_device);
    }
    return same_tensors(on_device, on_host);
}
auto const one_call = [](auto const& step, auto& x) { x.take(step); };

} // namespace

TEMPLATE_LIST_TEST_CASE("Thrust gives the bits of the serial backend", "", registered) {
    gs::exponential const schedule{.rate = 0.1, .decay = 0.5, .steps = 3};
    for (auto const& rule : settings_of<TestType>()) {
        for (std::size_t const n : {0u, 1u, 3u, 4u, 5u, 4095u, 4097u, 10001u})
            for (std::size_t const offset : {0u, 1u}) {
                INFO("n = " << n << ", offset " << offset);
                CHECK(trains_alike<float>(n, offset, {}, one_call, rule, schedule));
            }
        CHECK(trains_alike<double>(4097, 0, {}, one_call, rule, schedule));
        CHECK(trains_alike<gs::bfloat16>(4099, 0, {}, one_call, rule, schedule));
        CHECK(trains_alike<gs::bfloat16>(4099, 1, {}, one_call, rule, schedule));
        CHECK(trains_alike<gs::mixed<gs::bfloat16>>(4097, 0, {}, one_call, rule, schedule));
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

TEST_CASE("a parameter on Thrust owns its memory and copies out") {
    auto const initial = numbers<float>(1003, 0), gradient = numbers<float>(1003, 1);
    gs::parameter here{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}, gs::serial_backend{}), initial};
    gs::parameter there{gs::make_updater<float>(gs::adagrad{}, gs::constant{0.1}, gs::thrust_backend{}), initial};
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
    CHECK(there.clock().step == 3);
    std::vector<float> small(5);
    CHECK_THROWS_AS(there.copy_to(small), gs::size_error);
}

TEST_CASE("the global norm has the same bits on Thrust") {
    for (std::size_t const n : {0u, 1u, 31u, 33u, 4096u, 4097u, 100003u}) {
        auto const g = numbers<float>(n, 1);
        thrust::device_vector<float> const on_device(g.begin(), g.end());
        CHECK(gs::global_norm(gs::thrust_backend{}, on_device) == gs::global_norm(gs::serial_backend{}, g));
    }
}
