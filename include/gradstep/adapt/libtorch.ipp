#pragma once
// The definitions of gradstep::torch_optim. gradstep::libtorch compiles this file once; a program
// without that target includes it in one of its own files, and links gradstep::runtime.
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <gradstep/adapt/libtorch/step.hpp>

namespace gradstep::detail::libtorch::inline GRADSTEP_ABI {
// Reads a value from an archive of an Optimizer.
template <class T> void read(::torch::serialize::InputArchive& archive, char const* key, T& out) {
    if (!archive.try_read(key, out))
        detail::fail<value_error>({"archive"}, {"has no ", key}, {"one of gradstep::torch_optim::Optimizer"});
}
} // namespace gradstep::detail::libtorch::inline GRADSTEP_ABI

namespace gradstep::torch_optim {
template <class Base>::torch::Tensor replacement<Base>::step(LossClosure closure) {
    return detail::libtorch::take_step<detail::libtorch::kind_of<Base>>(*this, updaters_, closure);
}
template <class Base>
void replacement<Base>::append(std::vector<std::pair<::torch::Tensor, ::torch::Tensor>> const& rows) {
    std::vector<::torch::Tensor> parameters;
    for (auto const& [parameter, added] : rows) parameters.push_back(parameter);
    detail::libtorch::torch_step<detail::libtorch::kind_of<Base>>(*this, updaters_)
        .change_rows("append", parameters, [&](detail::libtorch::tensor_path const& here, std::size_t k) {
            if (!rows[k].second.defined())
                detail::fail<value_error>({here.text(), ": append"}, {"the new rows are undefined"}, {"a tensor"});
            return detail::libtorch::new_rows{parameters[k], {}, rows[k].second};
        });
}
template <class Base>
void replacement<Base>::keep(std::vector<::torch::Tensor> const& parameters, ::torch::Tensor const& mask) {
    detail::libtorch::torch_step<detail::libtorch::kind_of<Base>>(*this, updaters_)
        .change_rows("keep", parameters, [&](detail::libtorch::tensor_path const& here, std::size_t k) {
            return detail::libtorch::new_rows{parameters[k], detail::libtorch::kept_of(mask, parameters[k], here), {}};
        });
}
template class replacement<::torch::optim::Adam>;
template class replacement<::torch::optim::AdamW>;
template class replacement<::torch::optim::Adagrad>;
template class replacement<::torch::optim::RMSprop>;
template class replacement<::torch::optim::SGD>;
template class replacement<::torch::optim::Optimizer>;

void OptimizerOptions::inherit(OptimizerOptions const& from) {
    if (!sets_lr_ && lr_ == default_lr) lr(from.lr());
    if (config_.empty()) config_ = from.config();
    if (!sets_sparse_rows_ && !sparse_rows_) sparse_rows(from.sparse_rows());
}

void Optimizer::weights_set() {
    at::NoGradGuard const no_gradients;
    detail::libtorch::torch_step<detail::libtorch::any_kind>(*this, updaters_).weights_set();
}

Optimizer::Optimizer(std::vector<::torch::optim::OptimizerParamGroup> const& groups, OptimizerOptions defaults)
    : replacement(std::vector<::torch::optim::OptimizerParamGroup>(),
                  std::make_unique<OptimizerOptions>(std::move(defaults))) {
    for (::torch::optim::OptimizerParamGroup const& group : groups) add_param_group(group);
    detail::libtorch::torch_step<detail::libtorch::any_kind>(*this, updaters_).make_updaters();
}

void Optimizer::add_param_group(::torch::optim::OptimizerParamGroup const& group) {
    ::torch::optim::Optimizer::add_param_group(group);
    // Newer versions of torch replace options of a class that they do not know by the defaults'.
    if (!group.has_options()) return;
    std::unique_ptr<::torch::optim::OptimizerOptions> options = group.options().clone();
    if (auto* const own = dynamic_cast<OptimizerOptions*>(options.get()))
        own->inherit(static_cast<OptimizerOptions const&>(defaults()));
    param_groups().back().set_options(std::move(options));
}

void Optimizer::save(::torch::serialize::OutputArchive& archive) const {
    ::torch::optim::serialize<OptimizerParamState, OptimizerOptions>(archive, *this);
}
void Optimizer::load(::torch::serialize::InputArchive& archive) {
    updaters_ = nullptr; // of other options than the archive's
    ::torch::optim::serialize<OptimizerParamState, OptimizerOptions>(archive, *this);
}

void OptimizerOptions::serialize(::torch::serialize::OutputArchive& archive) const {
    archive.write("lr", c10::IValue(lr()));
    archive.write("config", c10::IValue(config()));
    archive.write("sparse_rows", c10::IValue(sparse_rows()));
}
void OptimizerOptions::serialize(::torch::serialize::InputArchive& archive) {
    c10::IValue value;
    detail::libtorch::read(archive, "lr", value);
    lr(value.toDouble());
    detail::libtorch::read(archive, "config", value);
    config(value.toStringRef());
    detail::libtorch::read(archive, "sparse_rows", value);
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
    detail::libtorch::read(archive, "step", value);
    step(value.toInt());
    detail::libtorch::read(archive, "clock", value);
    clock(value.toDoubleVector());
    ::torch::serialize::InputArchive of_slots;
    detail::libtorch::read(archive, "slots", of_slots);
    slots().clear();
    for (std::string const& name : of_slots.keys()) of_slots.read(name, slots()[name], /*is_buffer=*/true);
}
} // namespace gradstep::torch_optim
