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
#include <utility>
#include <vector>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace gradstep::torch_optim {
/// What the optimizers here add to the class of torch that they replace, `Base`: their own step,
/// and rows that come and go.
template <class Base> class replacement : public Base {
public:
    using Base::Base;
    /// torch's type of closures.
    using LossClosure = ::torch::optim::Optimizer::LossClosure;

    /// Updates every parameter that has a gradient: one step. `closure` computes the gradients
    /// again and returns the loss, which `step` returns.
    ///
    /// Everything is checked before anything is written. Throws buffer_error for a sparse gradient
    /// and for a tensor that is not on the CPU or has no memory, size_error for a gradient or a
    /// state of another shape, and value_error for another dtype, for an option out of range, for
    /// an incomplete state, and for a `config` in which a number has changed that must be the same
    /// in all steps. The message has the number of the parameter and of its group.
    ::torch::Tensor step(LossClosure closure = nullptr) override;

    /// Adds rows behind the others: the first tensor of each pair is a parameter, and the second
    /// one has its new rows. The state moves with its rows, and begins at zero in new rows:
    ///
    ///     optimizer.append({{means, new_means}, {colors, new_colors}});
    ///
    /// The tensors stay in their modules and groups. They get new contiguous memory, and their
    /// gradients become undefined: call backward before the next step. The counts of steps stay.
    /// Changes all parameters, or after an error none. Throws value_error for a tensor that is no
    /// parameter of the optimizer, size_error for rows of another shape, and buffer_error for
    /// parameters that share memory.
    void append(std::vector<std::pair<::torch::Tensor, ::torch::Tensor>> const& rows);
    /// Keeps the rows whose element of the mask is true, in their order, with their state. The mask
    /// has a bool for each row. Otherwise like `append`.
    ///
    ///     optimizer.keep({means, colors}, opacities > 0.005);
    void keep(std::vector<::torch::Tensor> const& parameters, ::torch::Tensor const& mask);

protected:
    /// What the last step has found for each group.
    std::shared_ptr<void> updaters_;
};

/// A drop-in replacement for torch::optim::AdamW, with its constructors, options and state:
/// decoupled weight decay, and `amsgrad`. Archives of each class load into the other one.
///
/// A step updates every parameter that has a gradient. One call of the library updates all tensors
/// of a group with the same dtype, on torch's threads (at::get_num_threads). Parameters are dense
/// tensors on the CPU of float32, float64, float16 or bfloat16, with any strides and any number of
/// dimensions. The state of 16-bit parameters is float32, while torch's is 16-bit; it is converted
/// at the first step after a load.
class AdamW : public replacement<::torch::optim::AdamW> {
public:
    using replacement::replacement;
};

/// A drop-in replacement for torch::optim::Adam, whose weight decay is added to the gradient.
/// Otherwise like AdamW.
class Adam : public replacement<::torch::optim::Adam> {
public:
    using replacement::replacement;
};

/// A drop-in replacement for torch::optim::SGD, with its constructors, options and state: momentum,
/// dampening, Nesterov momentum and weight decay. Otherwise like AdamW.
///
/// A sparse gradient without momentum updates the rows that it contains. With momentum it counts as
/// a dense gradient whose other elements are zeros, as in torch. With weight decay it is a
/// buffer_error.
class SGD : public replacement<::torch::optim::SGD> {
public:
    using replacement::replacement;
};

/// A drop-in replacement for torch::optim::RMSprop, with its constructors, options and state:
/// `centered`, momentum and weight decay. Otherwise like AdamW.
class RMSprop : public replacement<::torch::optim::RMSprop> {
public:
    using replacement::replacement;
};

/// A drop-in replacement for torch::optim::Adagrad, with its constructors, options and state. The
/// learning rate of step t is lr / (1 + (t - 1) lr_decay). A sparse gradient updates the rows that
/// it contains; with weight decay it is a buffer_error. Otherwise like AdamW.
class Adagrad : public replacement<::torch::optim::Adagrad> {
public:
    using replacement::replacement;
};

/// The options of a group of an Optimizer: `lr`, `config` and `sparse_rows`. A group inherits every
/// option that it does not set from the optimizer's defaults.
struct OptimizerOptions : public ::torch::optim::OptimizerCloneableOptions<OptimizerOptions> {
    /// Sets no option: the learning rate of defaults is 1e-3.
    OptimizerOptions() = default;
    /// Sets the learning rate.
    OptimizerOptions(double lr) : lr_(lr), sets_lr_(true) {}
    /// Sets the configuration, as JSON text.
    OptimizerOptions(std::string config) : config_(std::move(config)) {}
    /// Sets the configuration and the learning rate.
    OptimizerOptions(std::string config, double lr) : config_(std::move(config)), lr_(lr), sets_lr_(true) {}

    /// The learning rate, which every LRScheduler of torch can change. >= 0.
    OptimizerOptions& lr(double value) {
        sets_lr_ = true;
        lr_ = value;
        return *this;
    }
    double const& lr() const noexcept { return lr_; }
    double& lr() noexcept { return lr_; }
    /// The optimizer as JSON text (docs/how_to/configuration.md), without `schedule` and `threads`.
    TORCH_ARG(std::string, config);

public:
    /// Whether a sparse gradient updates the rows that it contains, and leaves the other rows and
    /// their state unchanged. Only for rules that are elementwise. Otherwise a sparse gradient is a
    /// buffer_error.
    OptimizerOptions& sparse_rows(bool value) {
        sets_sparse_rows_ = true;
        sparse_rows_ = value;
        return *this;
    }
    bool const& sparse_rows() const noexcept { return sparse_rows_; }
    bool& sparse_rows() noexcept { return sparse_rows_; }
    /// Takes the options that this object does not set from others.
    void inherit(OptimizerOptions const& from);

    /// Reads the options from an archive.
    void serialize(::torch::serialize::InputArchive& archive) override;
    /// Writes the options to an archive.
    void serialize(::torch::serialize::OutputArchive& archive) const override;
    /// Returns the learning rate, for schedulers.
    double get_lr() const override { return lr(); }
    /// Sets the learning rate, for schedulers.
    void set_lr(double const value) override { lr(value); }
    /// Whether all options are equal.
    friend bool operator==(OptimizerOptions const& a, OptimizerOptions const& b) {
        return a.lr() == b.lr() && a.config() == b.config() && a.sparse_rows() == b.sparse_rows();
    }

private:
    static constexpr double default_lr = 1e-3;
    double lr_ = default_lr;
    bool sparse_rows_ = false;
    bool sets_lr_ = false, sets_sparse_rows_ = false;
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
/// such as prodigy, needs all parameters in one group and of one dtype. The rules polyak_sgd, momo
/// and momo_adam compute their step size from the loss, and need a closure that returns it. `step`
/// also throws nonfinite_error if the configuration says `"on_nonfinite": "raise"`.
class Optimizer : public replacement<::torch::optim::Optimizer> {
public:
    /// Takes parameter groups, as add_param_group does. Throws value_error if a configuration is
    /// not valid, or not compiled for the dtype of a parameter.
    explicit Optimizer(std::vector<::torch::optim::OptimizerParamGroup> const& groups, OptimizerOptions defaults);
    /// Takes the parameters of one group.
    explicit Optimizer(std::vector<::torch::Tensor> parameters, OptimizerOptions defaults)
        : Optimizer({::torch::optim::OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}

    /// Adds a parameter group, which inherits every option that it does not set from the defaults.
    /// Call it by this class: torch's own function of a reference to torch::optim::Optimizer can
    /// give the group all of the defaults' options.
    void add_param_group(::torch::optim::OptimizerParamGroup const& group);

    /// Call it after you have set weights of the parameters, for example by torch::load: state that
    /// contains weights follows them, and training goes on from the new ones
    /// (docs/how_to/checkpoints.md). Moments and step counts do not change. Throws the errors of
    /// AdamW::step for a parameter with state; nothing has changed then.
    void weights_set();
    /// Writes state and options to an archive.
    void save(::torch::serialize::OutputArchive& archive) const override;
    /// Reads state and options from an archive of `save`. Throws value_error for an archive of
    /// another class.
    void load(::torch::serialize::InputArchive& archive) override;
};
} // namespace gradstep::torch_optim
