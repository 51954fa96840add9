#pragma once
#include <optional>

#include <gradstep/number/bfloat16.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep {
/// What an owning parameter, or a model, does with a gradient that contains NaN or infinity.
enum class nonfinite {
    propagate, ///< runs the step without a check: NaN and infinity reach their weights
    skip,      ///< changes nothing, including the clock, and reports the element
    raise,     ///< the same, by a nonfinite_error
};
template <> inline constexpr std::array enumerators<nonfinite>{"propagate", "skip", "raise"};

/// The position of the first NaN or infinity: the number of the tensor in the call, and of the
/// element in the tensor.
struct nonfinite_element {
    std::size_t tensor, index;

    friend bool operator==(nonfinite_element, nonfinite_element) = default;
};

/// The options of a parameter, besides its updater.
struct parameter_options {
    /// What a step does if a gradient, before gradient_scale, contains NaN or infinity. `skip` and
    /// `raise` read every gradient once more, and wait for a device.
    nonfinite on_nonfinite = nonfinite::propagate;
    /// The id of this parameter for stochastic rounding and noise: parameters of one model need
    /// different ids.
    std::uint64_t id = 0;
    /// Memory to which each step also writes the new values, rounded to bfloat16. You keep the
    /// memory. It cannot be combined with a lazy gradient or with dgc_momentum.
    std::span<bfloat16> bfloat16_copy = {};
    /// The rows and columns, for rules that use them (`muon`, `adafactor`); checkpoints contain
    /// them. By default it is the shape of the initial values, if they are an xtensor or Eigen
    /// container.
    gradstep::shape shape = {};
};

/// The result of an update.
struct update_result {
    /// Whether the step was taken. If false, values, state and clock are unchanged, but
    /// zero_gradient still applies.
    bool applied = true;
    /// The index of the first non-finite element of the gradient, if `on_nonfinite` searches for
    /// it.
    std::optional<std::size_t> nonfinite = {};
};
} // namespace gradstep
