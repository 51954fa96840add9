#pragma once
/// Optimizers of gradstep on a network: here gradstep is used.

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/backends/simd.hpp>
#include <gradstep/schedules/all.hpp>
#include <gradstep/updater.hpp>

#include "learner.hpp"
#include "network.hpp"

namespace gs = gradstep;

/// The memory of a tensor of n elements. The shape of a matrix is for rules that use it.
template <class Optimizer> footprint memory_of(std::size_t n, gs::shape const& shape = {}) {
    footprint out;
    out.moved = n * Optimizer::bytes_per_element;
    out.parameters = 2 * n * sizeof(typename Optimizer::traits::storage);
    for (std::size_t i = 0; i < Optimizer::slots; ++i)
        out.state += Optimizer::slot_size(i, n, shape) * sizeof(typename Optimizer::traits::state);
    return out;
}

/// An updater that works on the network's own tensors, and keeps its state in tensors like them.
template <class Optimizer> class learner_in_place : public learner {
    using state_type = typename Optimizer::traits::state;

public:
    learner_in_place(Optimizer optimizer, network& net) : optimizer_(optimizer) {
        state_.reserve(4); // the slices refer to it
        net.each_tensor([&](char const*, auto& value, auto& gradient) { add(value, gradient); });
    }
    void step() override { optimizer_.next_step()(slices_); }

protected:
    Optimizer optimizer_;
    std::vector<gs::slice<Optimizer>> slices_;

private:
    template <class Tensor> void add(Tensor& value, Tensor const& gradient) {
        auto& slots = state_.emplace_back();
        for (std::size_t i = 0; i < slots.size(); ++i) slots[i].resize(Optimizer::slot_size(i, value.size()));
        std::apply(
            [&](auto&... slot) {
                optimizer_.initialize(value, slot...);
                slices_.push_back({value, gradient, slot...});
            },
            slots);
        slices_.back().decay = value.dimension() > 1; // weight decay is for weights, not for biases
        memory_ += memory_of<Optimizer>(value.size());
    }

    std::vector<std::array<std::vector<state_type>, Optimizer::slots>> state_;
};

/// A twentieth of warm-up to the peak rate, then a cosine down to zero.
inline auto demo_schedule(double peak_rate, std::int64_t steps) {
    std::int64_t const rise = steps / 20;
    return gs::warmup{gs::cosine{.rate = peak_rate, .steps = steps - rise}, rise};
}
