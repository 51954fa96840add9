#pragma once
/// Optimizers for libtorch, the C++ library of PyTorch, on the CPU. Options, parameter groups,
/// closures, state and archives are torch's own. Link gradstep::libtorch.
///
///     gradstep::torch_optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-3));
///
/// This header includes no other header of gradstep, so that your files compile as fast as before.
/// The code of a step is in libtorch.ipp, which gradstep::libtorch compiles once.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace gradstep::torch_optim {

/// A drop-in replacement for torch::optim::AdamW, with its constructors, options and state:
/// decoupled weight decay, and `amsgrad`. Archives of each class load into the other one.
///
/// A step updates every parameter that has a gradient. One call of the library updates all tensors
/// of a group with the same dtype, on torch's threads (at::get_num_threads). Parameters are dense
/// tensors on the CPU of float32, float64, float16 or bfloat16, with any strides and any number of
/// dimensions. The state of 16-bit parameters is float32, while torch's is 16-bit; it is converted
/// at the first step after a load.
class AdamW : public ::torch::optim::AdamW {
public:
    using ::torch::optim::AdamW::AdamW;

    /// Updates every parameter that has a gradient: one step. `closure` computes the gradients
    /// again and returns the loss, which `step` returns.
    ///
    /// Everything is checked before anything is written. Throws buffer_error for a sparse gradient
    /// and for a tensor that is not on the CPU or has no memory, size_error for a gradient or a
    /// state of another shape, and value_error for another dtype, for an option out of range, and
    /// for an incomplete state. The message has the number of the parameter and of its group.
    ::torch::Tensor step(LossClosure closure = nullptr) override;

private:
    std::shared_ptr<void> updaters_; // what the last step has found for each group
};

/// A drop-in replacement for torch::optim::SGD, with its constructors, options and state: momentum,
/// dampening, Nesterov momentum and weight decay. Otherwise like AdamW.
///
/// A sparse gradient without momentum updates the rows that it contains. With momentum it counts as
/// a dense gradient whose other elements are zeros, as in torch. With weight decay it is a
/// buffer_error.
class SGD : public ::torch::optim::SGD {
public:
    using ::torch::optim::SGD::SGD;

    /// Updates every parameter that has a gradient: one step. Throws the errors of AdamW::step.
    ::torch::Tensor step(LossClosure closure = nullptr) override;

private:
    std::shared_ptr<void> updaters_;
};

/// The options of a group of an Optimizer: `lr`, `config` and `sparse_rows`.
struct OptimizerOptions : public ::torch::optim::OptimizerCloneableOptions<OptimizerOptions> {
    /// No configuration: a group uses the configuration of the optimizer's defaults.
    OptimizerOptions(double lr = 1e-3) : lr_(lr) {}
    /// A configuration as JSON text, and a learning rate.
    OptimizerOptions(std::string config, double lr = 1e-3) : lr_(lr), config_(std::move(config)) {}

    /// The learning rate, which every LRScheduler of torch can change. >= 0.
    TORCH_ARG(double, lr) = 1e-3;
    /// The optimizer as JSON text (docs/how_to/configuration.md), without `schedule` and `threads`.
    TORCH_ARG(std::string, config);
    /// Whether a sparse gradient updates the rows that it contains, and leaves the other rows and
    /// their state unchanged. Only for rules that are elementwise. Otherwise a sparse gradient is a
    /// buffer_error.
    TORCH_ARG(bool, sparse_rows) = false;

public:
    /// Reads the options from an archive.
    void serialize(::torch::serialize::InputArchive& archive) override;
    /// Writes the options to an archive.
    void serialize(::torch::serialize::OutputArchive& archive) const override;
    /// Returns the learning rate, for schedulers.
    double get_lr() const override { return lr(); }
    /// Sets the learning rate, for schedulers.
    void set_lr(double const lr) override { lr_ = lr; }
    /// Whether all options are equal.
    friend bool operator==(OptimizerOptions const& a, OptimizerOptions const& b) {
        return a.lr() == b.lr() && a.config() == b.config() && a.sparse_rows() == b.sparse_rows();
    }
};

/// The state of a parameter of an Optimizer.
struct OptimizerParamState : public ::torch::optim::OptimizerCloneableParamState<OptimizerParamState> {
    /// The type of `slots`.
    using slots_type = std::map<std::string, ::torch::Tensor>;

    /// The number of steps so far.
    TORCH_ARG(std::int64_t, step) = 0;
    /// The numbers that the rule keeps in the clock (gradstep::clock_state). Empty for most rules.
    TORCH_ARG(std::vector<double>, clock);
    /// The state slots by their names in gradstep, such as "m" and "v". They have the parameter's
    /// shape, unless the rule has other lengths (muon, adafactor, row-wise rules).
    TORCH_ARG(slots_type, slots);

public:
    /// Reads the state from an archive.
    void serialize(::torch::serialize::InputArchive& archive) override;
    /// Writes the state to an archive.
    void serialize(::torch::serialize::OutputArchive& archive) const override;
};

/// Runs any configuration of gradstep that is compiled into gradstep::runtime, as an optimizer of
/// torch.
///
///     gradstep::torch_optim::Optimizer optimizer(net->parameters(),
///         {R"({"rule": {"name": "lion"}, "regularizer": {"name": "decoupled", "rate": 0.1}})", 1e-4});
///
/// The parameters are as for AdamW. A group can have its own `config`. Rules that use shapes, such
/// as muon and adafactor, join the dimensions of a tensor after the first one. A model-wise rule,
/// such as prodigy, needs all parameters in one group and of one dtype.
class Optimizer : public ::torch::optim::Optimizer {
public:
    /// Takes parameter groups, as add_param_group does. Throws value_error if a configuration is
    /// not valid, or not compiled for the dtype of a parameter.
    explicit Optimizer(std::vector<::torch::optim::OptimizerParamGroup> const& groups, OptimizerOptions defaults);
    /// Takes the parameters of one group.
    explicit Optimizer(std::vector<::torch::Tensor> parameters, OptimizerOptions defaults)
        : Optimizer({::torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

    /// Adds a parameter group. A group without options uses the defaults' options, and one without
    /// a `config` their configuration. Call it by this class: torch's own function of a reference
    /// to torch::optim::Optimizer gives the group the defaults' options.
    void add_param_group(::torch::optim::OptimizerParamGroup const& group);

    /// Updates every parameter that has a gradient: one step. The rules polyak_sgd, momo and
    /// momo_adam compute their step size from the loss, and need a closure that returns it. Throws
    /// the errors of AdamW::step, and nonfinite_error if the configuration says
    /// `"on_nonfinite": "raise"`.
    ::torch::Tensor step(LossClosure closure = nullptr) override;
    /// Writes state and options to an archive.
    void save(::torch::serialize::OutputArchive& archive) const override;
    /// Reads state and options from an archive of `save`. Throws value_error for an archive of
    /// another class.
    void load(::torch::serialize::InputArchive& archive) override;

private:
    std::shared_ptr<void> updaters_;
};

} // namespace gradstep::torch_optim
