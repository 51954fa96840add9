// The only file that is C++20.
#include "optimizer.hpp"

#include <list>
#include <vector>

#include <gradstep/runtime.hpp>

// [implementation]
namespace gs = gradstep;

struct optimizer::implementation {
    gs::any_updater updater;
    std::list<std::vector<std::vector<float>>> state;
    std::list<std::vector<gs::any_span>> slots;
    std::vector<gs::any_tensor> tensors;
};

optimizer::optimizer(std::string const& config)
    : own_(new implementation{gs::any_updater(gs::read_optimizer(config), gs::scalar::float32), {}, {}, {}}) {}
optimizer::~optimizer() = default;

void optimizer::add(float* weights, float const* gradient, std::size_t size) {
    auto& state = own_->state.emplace_back();
    for (std::size_t i = 0; i < own_->updater.slots(); ++i) state.emplace_back(own_->updater.slot_size(i, size));
    auto const& slots = own_->slots.emplace_back(state.begin(), state.end());
    gs::any_tensor tensor;
    tensor.values = {gs::scalar::float32, weights, size};
    tensor.gradient = {gs::scalar::float32, gradient, size};
    tensor.slots = slots;
    own_->updater.initialize(tensor);
    own_->tensors.push_back(tensor);
}

void optimizer::step() {
    own_->updater.next_step();
    own_->updater.apply(own_->tensors);
}
// [implementation]
