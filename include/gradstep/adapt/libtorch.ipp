#pragma once
// The definitions of gradstep::torch_optim. gradstep::libtorch compiles this file once; a program
// without that target includes it in one of its own files, and links gradstep::runtime.
#include <memory>
#include <string>
#include <vector>

#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <gradstep/adapt/libtorch.hpp>
#include <gradstep/adapt/libtorch/kinds.hpp>
#include <gradstep/adapt/libtorch/step.hpp>

namespace gradstep::torch_optim {

::torch::Tensor AdamW::step(LossClosure closure) {
    return detail::libtorch::take_step<detail::libtorch::adamw_kind>(*this, updaters_, closure);
}
::torch::Tensor SGD::step(LossClosure closure) {
    return detail::libtorch::take_step<detail::libtorch::sgd_kind>(*this, updaters_, closure);
}
::torch::Tensor Optimizer::step(LossClosure closure) {
    return detail::libtorch::take_step<detail::libtorch::any_kind>(*this, updaters_, closure);
}

Optimizer::Optimizer(std::vector<::torch::optim::OptimizerParamGroup> const& groups, OptimizerOptions defaults)
    : ::torch::optim::Optimizer(groups, std::make_unique<OptimizerOptions>(defaults)) {
    detail::libtorch::torch_step<detail::libtorch::any_kind>(*this, updaters_).make_updaters();
}

void Optimizer::save(::torch::serialize::OutputArchive& archive) const {
    ::torch::optim::serialize<OptimizerParamState, OptimizerOptions>(archive, *this);
}
void Optimizer::load(::torch::serialize::InputArchive& archive) {
    ::torch::optim::serialize<OptimizerParamState, OptimizerOptions>(archive, *this);
}

void OptimizerOptions::serialize(::torch::serialize::OutputArchive& archive) const {
    archive.write("lr", c10::IValue(lr()));
    archive.write("config", c10::IValue(config()));
    archive.write("sparse_rows", c10::IValue(sparse_rows()));
}
void OptimizerOptions::serialize(::torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("lr", value);
    lr(value.toDouble());
    archive.read("config", value);
    config(value.toStringRef());
    archive.read("sparse_rows", value);
    sparse_rows(value.toBool());
}

void OptimizerParamState::serialize(::torch::serialize::OutputArchive& archive) const {
    archive.write("step", c10::IValue(step()));
    archive.write("clock", c10::IValue(clock()));
    ::torch::serialize::OutputArchive of_slots(archive.compilation_unit());
    for (auto const& [name, slot] : slots()) of_slots.write(name, slot, /*is_buffer=*/true);
    archive.write("slots", of_slots);
}
void OptimizerParamState::serialize(::torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("step", value);
    step(value.toInt());
    archive.read("clock", value);
    clock(value.toDoubleVector());
    ::torch::serialize::InputArchive of_slots;
    archive.read("slots", of_slots);
    slots().clear();
    for (std::string const& name : of_slots.keys()) of_slots.read(name, slots()[name], /*is_buffer=*/true);
}

} // namespace gradstep::torch_optim
