#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include <gradstep/adapt/xtensor.hpp>
#include <gradstep/gradstep.hpp>

#include "network.hpp"

namespace gs = gradstep;

/// The memory of a training, in bytes.
struct footprint {
    std::size_t moved = 0;      // that a step reads and writes
    std::size_t state = 0;      // of the optimizer
    std::size_t parameters = 0; // and their gradients
    std::size_t kept() const { return parameters + state; }
};

/// An optimizer attached to the parameters of a network, whatever its type is: the training loop is
/// compiled once.
class learner {
public:
    virtual ~learner() = default;
    /// One step of all parameters by their gradients.
    virtual void step() = 0;
    /// Gives the network the parameters, where they are not its own.
    virtual void publish() {}
    /// Calls `judge` while the network has the weights that are to be judged: the last ones, or an
    /// average of them.
    virtual void evaluate(std::function<void()> const& judge) { judge(); }
    virtual void end_of_epoch() {}
    footprint const& memory() const { return memory_; }

protected:
    /// Adds a tensor of n elements to the footprint. The shape of a matrix is for rules that use
    /// it.
    template <class Optimizer> void count(std::size_t n, gs::shape const& shape = {}) {
        memory_.moved += n * Optimizer::bytes_per_element;
        memory_.parameters += 2 * n * sizeof(typename Optimizer::traits::storage);
        for (std::size_t i = 0; i < Optimizer::slots; ++i)
            memory_.state += Optimizer::slot_size(i, n, shape) * sizeof(typename Optimizer::traits::state);
    }

    footprint memory_;
};

/// Attaches an optimizer for a training of so many steps, to the network of each trainer.
using make_learner = std::function<std::unique_ptr<learner>(std::span<network>, std::int64_t steps)>;

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
        this->template count<Optimizer>(value.size());
    }

    std::vector<std::array<std::vector<state_type>, Optimizer::slots>> state_;
};

/// The same for parameters in another storage than the network's, which computes with copies of
/// them in float.
template <class Optimizer> class learner_of_copies : public learner {
    using storage = typename Optimizer::traits::storage;

public:
    learner_of_copies(Optimizer optimizer, network& net) : optimizer_(optimizer) {
        add(net.hidden.weight, net.hidden.weight_gradient, 0);
        add(net.hidden.bias, net.hidden.bias_gradient, 1);
        add(net.output.weight, net.output.weight_gradient, 2);
        add(net.output.bias, net.output.bias_gradient, 3);
        publish(); // the network begins with what the storage can hold
    }
    void step() override {
        for (copy& one : copies_) {
            for (std::size_t i = 0; i < one.rounded.size(); ++i) one.rounded[i] = storage(one.gradient[i]);
            one.parameter.update(one.rounded);
        }
    }
    void publish() override {
        for (copy& one : copies_) {
            auto const now = one.parameter.values();
            for (std::size_t i = 0; i < now.size(); ++i) one.value[i] = static_cast<float>(now[i]);
        }
    }

private:
    struct copy {
        float* value;
        float const* gradient;
        std::vector<storage> rounded; // the gradient as the optimizer gets it
        gs::parameter<Optimizer> parameter;
    };
    template <class Tensor> void add(Tensor& value, Tensor const& gradient, std::uint64_t id) {
        std::vector<storage> initial(value.size());
        for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = storage(value.data()[i]);
        copies_.push_back({value.data(), gradient.data(), initial, gs::parameter{optimizer_, initial, {.id = id}}});
        this->template count<Optimizer>(initial.size());
    }

    Optimizer optimizer_;
    std::vector<copy> copies_;
};

/// A twentieth of warm-up to the peak rate, then a cosine down to zero.
inline auto demo_schedule(double peak_rate, std::int64_t steps) {
    std::int64_t const rise = steps / 20;
    return gs::warmup{gs::cosine{.rate = peak_rate, .steps = steps - rise}, rise};
}
