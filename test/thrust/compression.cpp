// Compressed steps on Thrust: the messages and the bits of the serial backend.
#include <gradstep/compression.hpp>
#include <gradstep/thrust.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "runs.hpp"
#include "support/catch.hpp"

namespace {

template <class Element, class Backend, template <class...> class Vector>
std::vector<std::byte> sent_by(Backend const& backend, gs::dgc_momentum const& rule, std::size_t n,
                               std::vector<typename gs::element_traits<Element>::storage>& weight,
                               std::vector<typename gs::element_traits<Element>::state>& residual) {
    auto optimizer = gs::make_updater<Element>(rule, gs::l2{0.01}, gs::constant{0.1}, backend);
    using updater = decltype(optimizer);
    tensor<updater, Vector> x(optimizer, n, 0);
    std::vector<std::byte> sent;
    for (std::uint32_t t = 1; t <= 5; ++t) {
        x.set_gradient(t);
        auto const step = optimizer.next_step({.gradient_scale = t == 2 ? 0.5 : 1, .zero_gradient = t == 3, .seed = 5});
        auto const slice = x.slice();
        if (t == 4) {
            step(slice);
            continue;
        }
        auto const message = step.compress(slice);
        auto const bytes = message.encode();
        sent.insert(sent.end(), bytes.begin(), bytes.end());
        step.apply(slice, message);
    }
    weight.resize(n);
    residual.resize(n);
    thrust::copy(x.weight.begin(), x.weight.end(), weight.begin());
    thrust::copy(x.slots[1].begin(), x.slots[1].end(), residual.begin());
    return sent;
}

template <class Element> void check_that_messages_are_equal(gs::dgc_momentum const& rule, std::size_t n) {
    using storage = typename gs::element_traits<Element>::storage;
    using state = typename gs::element_traits<Element>::state;
    std::vector<storage> w, expected_w;
    std::vector<state> v, expected_v;
    auto const expected =
        sent_by<Element, gs::serial_backend, host_vector>(gs::serial_backend{}, rule, n, expected_w, expected_v);
    auto const sent = sent_by<Element, gs::thrust_backend<>, device_vector>(gs::thrust_backend{}, rule, n, w, v);
    CAPTURE(n, gs::describe(rule));
    CHECK(sent == expected);
    CHECK(std::memcmp(w.data(), expected_w.data(), n * sizeof(storage)) == 0);
    CHECK(std::memcmp(v.data(), expected_v.data(), n * sizeof(state)) == 0);
}

} // namespace

TEMPLATE_TEST_CASE("Thrust sends the messages of the serial backend, and holds its bits", "", float,
                   gs::stochastic<gs::bfloat16>) {
    for (std::size_t const n : {1u, 1000u, 5003u, 40001u}) {
        gs::dgc_momentum rule{.rampup_begin_step = 1,
                              .rampup_step = 4,
                              .sparsity = {0, 0.7, 0.9, 0.999},
                              .local_grad_clip_norm = 1000,
                              .dense_below = 0};
        check_that_messages_are_equal<TestType>(rule, n);
        rule.nesterov = true;
        rule.selected = gs::selection::sampled;
        check_that_messages_are_equal<TestType>(rule, n);
    }
}

TEST_CASE("Thrust adds the messages of several trainers as the serial backend does", "") {
    std::size_t const n = 20000;
    gs::dgc_momentum const rule{.rampup_begin_step = 1, .sparsity = {0.9}, .num_trainers = 3, .dense_below = 0};
    auto device = gs::make_updater<float>(rule, gs::constant{0.3}, gs::thrust_backend{});
    auto host = gs::make_updater<float>(rule, gs::constant{0.3}, gs::serial_backend{});
    tensor<decltype(device), device_vector> a(device, n, 0);
    tensor<decltype(host), host_vector> b(host, n, 0);
    for (std::uint32_t t = 0; t < 2; ++t) { // dense, then sparse
        auto const on_device = device.next_step();
        auto const on_host = host.next_step();
        std::vector<gs::sparse_message> messages;
        for (std::uint32_t r = 0; r < 3; ++r) {
            auto const g = numbers<float>(n, 10 * t + r);
            std::vector<float> u(n), v(n);
            messages.push_back(on_host.compress(g, u, v));
        }
        on_device.apply(a.slice(), messages);
        on_host.apply(b.slice(), messages);
        CHECK(same_tensors(a, b));
    }
}

TEST_CASE("top_k on Thrust has the indices of the serial backend's", "") {
    float const nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    for (std::size_t const n : {1u, 3u, 5000u, 70000u})
        for (int kind = 0; kind < 5; ++kind) {
            auto x = numbers<float>(n, 3);
            for (std::size_t i = 0; i < n; ++i) {
                if (kind == 1) x[i] = i % 2 == 0 ? 1.0f : -1.0f;
                if (kind == 2) x[i] = i % 1000 == 7 ? x[i] : 0;
                if (kind == 3 && i % 50 == 1) x[i] = i % 100 == 1 ? nan : -inf;
                if (kind == 4) x[i] = static_cast<float>(i * 2654435761u % 7);
            }
            thrust::device_vector<float> const on_device(x.begin(), x.end());
            for (std::size_t const k : {std::size_t(1), n / 1000, n / 10, n / 3, n}) {
                CAPTURE(n, k, kind);
                CHECK(gs::top_k(gs::thrust_backend{}, on_device, k) == gs::top_k(gs::serial_backend{}, x, k));
            }
        }
}
