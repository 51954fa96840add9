#pragma once
/// What the tests of the factored rules share: tensors, runs, and properties that hold for each of
/// the rules.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/catch.hpp>
#include <support/refusal.hpp>

namespace factored {

namespace gs = gradstep;
using real = long double;
using numbers = std::vector<double>;

constexpr double rate = 0.125, decay = 0.25;
constexpr std::size_t steps = 3;

/// As in test/golden/factored_torch.py.
inline numbers sequence(std::size_t seed, std::size_t size, double scale = 1) {
    numbers out(size);
    for (std::size_t i = 0; i < size; ++i)
        out[i] = (static_cast<double>((i * i * 7 + i * 13 * seed + 5 * seed) % 257) - 128) / 64 * scale;
    return out;
}
template <class T> std::vector<T> converted(numbers const& x) {
    std::vector<T> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        if constexpr (std::is_same_v<T, double>) out[i] = x[i];
        else out[i] = T(static_cast<float>(x[i]));
    return out;
}

/// The weights after three steps. Without columns the tensor has no shape.
template <class Element, class Rule, class Regularizer, class Backend = gs::simd_backend<>>
auto trained(Rule const& rule, Regularizer const& regularizer, std::size_t rows, std::size_t cols, double lr = rate,
             double scale = 1, Backend const& backend = Backend{}) {
    auto optimizer = gs::make_updater<Element>(rule, regularizer, gs::constant{lr}, backend);
    using storage = typename decltype(optimizer)::traits::storage;
    std::size_t const n = rows * std::max<std::size_t>(cols, 1);
    gs::shape const of = cols == 0 ? gs::shape{} : gs::shape{rows, cols};
    gs::parameter w{optimizer, converted<storage>(sequence(1, n)), {.id = 7, .shape = of}};
    for (std::size_t s = 0; s < steps; ++s) w.update(converted<storage>(sequence(s + 2, n, scale)), {.seed = 3});
    return std::vector(w.values().begin(), w.values().end());
}
template <class Found, class Expected> double largest_difference(Found const& found, Expected const& expected) {
    REQUIRE(found.size() == expected.size());
    real worst = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<real>(expected[i]) - static_cast<real>(found[i])));
    return static_cast<double>(worst);
}

struct tensor_shape {
    std::size_t rows, cols; // without columns it is no matrix
};
/// The last three have several tiles.
constexpr std::array shapes{tensor_shape{5, 8},   tensor_shape{8, 5},     tensor_shape{7, 7},   tensor_shape{1, 6},
                            tensor_shape{6, 1},   tensor_shape{1, 1},     tensor_shape{40, 0},  tensor_shape{1, 0},
                            tensor_shape{67, 20}, tensor_shape{66, 4100}, tensor_shape{9000, 0}};
/// What one setting is enough for: the formula takes seconds.
constexpr bool is_large(tensor_shape of) { return of.rows * of.cols > 100'000; }

/// Equal bits on every backend and number of threads.
template <class Element, class Rule> void check_bits(Rule const& rule) {
    gs::thread_pool pool{3};
    for (auto const [rows, cols] : {tensor_shape{5, 8}, {40, 0}, {301, 260}, {70, 4200}, {100003, 0}}) {
        CAPTURE(gs::describe(rule), rows, cols);
        gs::decoupled const decay_of{decay};
        auto const expected = trained<Element>(rule, decay_of, rows, cols, rate, 1, gs::serial_backend{});
        auto const same = [&](auto const& found) {
            return std::equal(found.begin(), found.end(), expected.begin(), [](auto a, auto b) {
                return static_cast<double>(gs::detail::widen(a)) == static_cast<double>(gs::detail::widen(b));
            });
        };
        CHECK(same(trained<Element>(rule, decay_of, rows, cols, rate, 1, gs::simd_backend{})));
        CHECK(same(trained<Element>(rule, decay_of, rows, cols, rate, 1, gs::simd_backend{pool})));
    }
}

/// A tensor with its state.
template <class Updater> struct tensor {
    std::vector<float> w, g;
    std::array<std::vector<float>, Updater::slots> state;
    gs::shape of;

    tensor(Updater const& optimizer, std::vector<float> weights, std::vector<float> gradient, gs::shape shape)
        : w(std::move(weights)), g(std::move(gradient)), of(shape) {
        for (std::size_t i = 0; i < state.size(); ++i) state[i].assign(Updater::slot_size(i, w.size(), of), 7);
        optimizer.initialize(slice());
    }
    gs::slice<Updater> slice() {
        return std::apply(
            [&](auto&... slots) {
                gs::slice<Updater> out{w, g, slots...};
                out.shape = of;
                return out;
            },
            state);
    }
};
template <class Updater, class... More> tensor(Updater const&, More...) -> tensor<Updater>;

/// Options of a step, a slice and a parameter; memory in column-major order; threads; what is
/// refused.
template <class Rule> void check_options(Rule const& rule) {
    constexpr std::size_t rows = 6, cols = 37, n = rows * cols;
    auto const w0 = converted<float>(sequence(1, n)), g0 = converted<float>(sequence(2, n));
    auto const stepped = [&](auto optimizer, std::vector<float> const& g, gs::shape of,
                             gs::step_options const& how = {}) {
        tensor x(optimizer, w0, g, of);
        optimizer.next_step(how)(x.slice());
        return x.w;
    };
    auto const plain = [&](double lr = rate) { return gs::make_updater<float>(rule, gs::constant{lr}); };

    for (gs::shape const of : {gs::shape{rows, cols}, gs::shape{}}) {
        CAPTURE(of.rows);
        { // gradient_scale and a regularizer change the gradient, and zero_gradient clears it
            auto own = gs::make_updater<float>(rule, gs::l2{0.5}, gs::constant{rate});
            auto expected_g = g0;
            for (std::size_t i = 0; i < n; ++i) expected_g[i] = std::fma(0.5f, w0[i], 0.25f * g0[i]);
            tensor x(own, w0, g0, of);
            own.next_step({.gradient_scale = 0.25, .zero_gradient = true})(x.slice());
            CHECK(x.w == stepped(plain(), expected_g, of));
            CHECK(x.g == std::vector<float>(n));
        }
        { // decay, rate_scale and a copy in bfloat16
            auto own = gs::make_updater<float>(rule, gs::decoupled{0.5}, gs::constant{rate});
            tensor x(own, w0, g0, of);
            std::vector<gs::bfloat16> copy(n);
            auto slice = x.slice();
            slice.decay = false;
            slice.rate_scale = 0.5;
            slice.bfloat16_copy = copy;
            own.next_step()(std::vector{slice});
            CHECK(x.w == stepped(plain(rate / 2), g0, of));
            for (std::size_t i = 0; i < n; ++i)
                REQUIRE(static_cast<float>(copy[i]) == static_cast<float>(gs::bfloat16(x.w[i])));
        }
        { // a NaN is not hidden, and a step without gradient moves nothing
            auto g = g0;
            g[3] = std::numeric_limits<float>::quiet_NaN();
            CHECK(std::isnan(stepped(plain(), g, of)[3]));
            CHECK(stepped(plain(), std::vector<float>(n), of) == w0);
        }
        { // huge and tiny gradients make finite steps
            for (float const scale : {1e18f, 1e-18f}) {
                auto g = g0;
                for (float& each : g) each *= scale;
                for (float const w : stepped(plain(), g, of)) REQUIRE(std::isfinite(w));
            }
        }
        { // buffers one by one, with lengths that say whether it is a matrix
            auto own = plain();
            tensor x(own, w0, g0, of);
            std::apply([&](auto&... slots) { own.next_step()(x.w, x.g, slots...); }, x.state);
            CHECK(x.w == stepped(plain(), g0, of));
        }
        { // several threads share the work memory
            auto own = plain();
            std::vector<tensor<decltype(own)>> all(8, tensor(own, w0, g0, of));
            auto const step = own.next_step();
            std::vector<std::thread> threads;
            for (auto& x : all) threads.emplace_back([&] { step(x.slice()); });
            for (auto& each : threads) each.join();
            for (auto& x : all) CHECK(x.w == stepped(plain(), g0, of));
        }
    }
    { // memory in column-major order: up to the order of sums
        auto own = plain();
        std::vector<float> w(n), g(n);
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j)
                w[j * rows + i] = w0[i * cols + j], g[j * rows + i] = g0[i * cols + j];
        tensor x(own, w, g, {rows, cols, gs::memory_order::column_major});
        own.next_step()(x.slice());
        auto const expected = stepped(plain(), g0, {rows, cols});
        for (std::size_t i = 0; i < rows; ++i)
            for (std::size_t j = 0; j < cols; ++j)
                REQUIRE(x.w[j * rows + i] == Approx(expected[i * cols + j]).epsilon(1e-5).margin(1e-5));
        for (std::size_t i = 0; i != decltype(own)::slots; ++i)
            CHECK(x.state[i].size() == decltype(own)::slot_size(i, n, gs::shape{rows, cols}));
    }
    { // tensors without elements
        auto own = plain();
        for (gs::shape const of : {gs::shape{}, gs::shape{0, 4}, gs::shape{4, 0}}) {
            tensor x(own, {}, {}, of);
            own.next_step()(x.slice());
        }
        CHECK(own.clock().step == 3);
    }
    { // refused
        auto own = plain();
        using updater = decltype(own);
        std::string const r = updater::state_names[gs::slot_count<Rule>];
        auto const step = own.next_step();
        tensor x(own, w0, g0, {rows, cols}), vector(own, w0, g0, {});
        auto const with = [&](tensor<updater>& of, gs::shape shape) {
            auto slice = of.slice();
            slice.shape = shape;
            return refusal<gs::size_error>([&] { step(slice); });
        };
        CHECK(with(x, {rows, cols + 1}) == "shape: 6 x 38 for 222 elements; expected a shape with as many elements");
        CHECK(with(x, {cols, rows}) ==
              r + ": has 6 elements; expected 37, for a parameter of 222 elements and the shape 37 x 6");
        CHECK(with(vector, {rows, cols}) ==
              r + ": has 0 elements; expected 6, for a parameter of 222 elements and the shape 6 x 37");
        for (std::size_t i = 0; i != gs::factor_slot_count<Rule>; ++i)
            if (Rule::factor_slots[i].length == gs::factor_length::rows) x.state[gs::slot_count<Rule> + i].push_back(0);
        CHECK(with(x, {}) ==
              r + ": the slots are those of a matrix of 7 x 37, and the parameter has 222 elements; expected "
                  "slots for the shape of the parameter, or for a tensor without one");
        CHECK(x.w == w0);

        gs::parameter owned{own, w0};
        owned.set_shape({rows, cols});
        owned.update(g0);
        auto const values = owned.values();
        CHECK(std::vector(values.begin(), values.end()) == stepped(plain(), g0, {rows, cols}));
        owned.set_shape({rows, cols});
        CHECK(refusal<gs::sequence_error, std::logic_error>([&] {
                  owned.set_shape({cols, rows});
              }) == "set_shape: the rule keeps numbers for the rows and columns of another shape; expected the shape "
                    "before the "
                    "first step");
        CHECK(owned.options().shape == gs::shape{rows, cols});
    }
}

/// Every regularizer acts as on other rules.
template <class Rule> void check_regularizers(Rule const& rule) {
    auto const stepped = [&](auto const& regularizer, std::size_t cols) {
        return trained<float>(rule, regularizer, 9, cols);
    };
    for (std::size_t const cols : {std::size_t(6), std::size_t(0)}) {
        CHECK(stepped(gs::all_of{gs::decoupled{0.5}, gs::clamp_weight{.low = -1e6, .high = 1e6}}, cols) ==
              stepped(gs::decoupled{0.5}, cols));
        CHECK(stepped(gs::decoupled{0.5}, cols) != stepped(gs::none{}, cols));
        auto const clamped = stepped(gs::clamp_weight{.low = -0.5, .high = 0.5}, cols);
        CHECK(std::ranges::all_of(clamped, [](float w) { return std::abs(w) <= 0.5f; }));
    }
}

} // namespace factored
