#pragma once
#include <optional>

#include <gradstep/base/error.hpp>
#include <gradstep/policy/decay_factor.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// The options of a single step. All of them are part of the same pass over memory.
struct step_options {
    /// Multiplies every gradient as it is read: 1 / loss_scale, a clip_scale, 1 / batch. Any finite
    /// number.
    double gradient_scale = 1;
    /// Multiplies the learning rate of this step. Finite and >= 0.
    double rate_scale = 1;
    /// The number of samples in this step; the clock's `samples` advances by it. >= 0.
    std::int64_t samples = 0;
    /// Sets every gradient to zero as soon as it is read, also if `on_nonfinite = skip` skips the
    /// step. The gradients must then be writable.
    bool zero_gradient = false;
    /// The learning rate of this step instead of the schedule's. Finite and >= 0.
    std::optional<double> rate = {};
    /// The seed of stochastic rounding, and of the noise of a rule. With the number of the step and
    /// the id of a tensor, it determines the random bits of each element.
    std::uint64_t seed = 0;
    /// The clock's epoch from this step on, for schedules by epochs. Without it, the epoch does not
    /// change. >= 0.
    std::optional<std::int64_t> epoch = {};
    /// The loss whose gradient this step gets, without loss scaling. Rules that compute their step
    /// size from it need it (polyak_sgd, momo, momo_adam); other rules ignore it. Finite.
    std::optional<double> loss = {};

    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"gradient_scale", &step_options::gradient_scale, ranges::finite},
        hyperparameter{"rate_scale", &step_options::rate_scale, ranges::non_negative},
        hyperparameter{"samples", &step_options::samples, ranges::count},
    };
    GRADSTEP_INLINE void check() const {
        if (rate && !ranges::non_negative.contains(*rate))
            detail::fail<value_error>({"step_options.rate"}, {*rate, " is out of range"}, {ranges::non_negative.text});
        if (epoch && *epoch < 0)
            detail::fail<value_error>({"step_options.epoch"}, {*epoch, " is out of range"}, {ranges::count.text});
        if (loss && !ranges::finite.contains(*loss))
            detail::fail<value_error>({"step_options.loss"}, {*loss, " is out of range"}, {ranges::finite.text});
    }
    friend bool operator==(step_options const&, step_options const&) = default;
};

/// The options of one tensor of a step, or of one parameter of a model.
struct tensor_options {
    /// Multiplies the learning rate of this parameter. Finite and >= 0.
    double rate_scale = 1;
    /// Multiplies the rates of l1, l2, elastic_net, decoupled, after_step, cautious_decay and
    /// proximal for this parameter; false or 0 leaves them out. Clipping stays. Finite and >= 0.
    decay_factor decay = 1;

    static constexpr auto hyperparameters =
        hyperparameter_list{hyperparameter{"rate_scale", &tensor_options::rate_scale, ranges::non_negative}};
    GRADSTEP_INLINE void check() const {
        if (!ranges::non_negative.contains(decay))
            detail::fail<value_error>({"tensor_options.decay"}, {static_cast<double>(decay), " is out of range"},
                                      {ranges::non_negative.text});
    }
};
} // namespace gradstep
