#pragma once
/// The Thrust backend against the serial one: the same run on both.

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include <gradstep/thrust.hpp>

namespace gs = gradstep;

/// Numbers of either sign between 2^-8 and 2^3, no two streams alike, and some zeros; nothing
/// becomes subnormal.
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

/// The first element in which two results differ in a bit, or "". On CUDA every NaN that is
/// computed has the same bits, whatever NaN came in: any NaN is then as good as another.
template <class S> std::string difference(std::span<S const> device, std::span<S const> host) {
    if (device.size() != host.size())
        return std::to_string(device.size()) + " elements instead of " + std::to_string(host.size());
    for (std::size_t i = 0; i < host.size(); ++i) {
        if (std::memcmp(&device[i], &host[i], sizeof(S)) == 0) continue;
        auto const got = gs::detail::widen(device[i]), expected = gs::detail::widen(host[i]);
#if defined(__CUDACC__)
        if (got != got && expected != expected) continue;
#endif
        char text[100];
        std::snprintf(text, sizeof(text), "element %zu is %.17g instead of %.17g", i, static_cast<double>(got),
                      static_cast<double>(expected));
        return text;
    }
    return "";
}
template <class S> std::string difference(thrust::device_vector<S> const& device, std::vector<S> const& host) {
    std::vector<S> copy(device.size());
    thrust::copy(device.begin(), device.end(), copy.begin());
    return difference<S>(std::span<S const>(copy), std::span<S const>(host));
}
template <class S> bool same_bits(thrust::device_vector<S> const& device, std::vector<S> const& host) {
    return difference(device, host).empty();
}

/// Weights and state of one tensor, in containers of one memory.
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

/// Does what the threads of a GPU do under CUDA, on the system that Thrust has here.
using device_backend = gs::thrust_backend<std::remove_cvref_t<decltype(thrust::device)>, gs::detail::device_threads>;

/// Trains on both backends and compares; `step` applies one step to a tensor.
template <class Element, class Backend = gs::thrust_backend<>, class Step, class... Policies>
bool trains_alike(std::size_t n, std::size_t offset, gs::step_options const& options, Step const& step,
                  Policies... policies) {
    auto here = gs::make_updater<Element>(policies..., gs::serial_backend{});
    auto there = gs::make_updater<Element>(policies..., Backend{});
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
inline constexpr auto one_call = [](auto const& step, auto& x) { x.take(step); };

/// The schedule under which rules are compared.
inline constexpr gs::exponential falling{.rate = 0.1, .decay = 0.5, .steps = 3};
