#pragma once
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <gradstep/clipping/nonfinite.hpp>

namespace gradstep {

/// What a model does beyond its parameters.
struct model_options {
    /// Scales all gradients by min(1, clip_norm / norm), norm being that of all of them together,
    /// gradient_scale included. Integers are left out of both: they hold counts. Infinite: no
    /// clipping, and nothing is read for it. > 0.
    double clip_norm = std::numeric_limits<double>::infinity();
    /// What gradients with elements that are not finite do, as they are before gradient_scale, to
    /// all parameters together. `skip` and `raise` read every gradient once more.
    nonfinite on_nonfinite = nonfinite::propagate;
};

/// What an update of a model has done.
struct model_result {
    /// Whether the step was taken; false leaves every parameter as it was (zero_gradient is done).
    bool applied = true;
    /// The norm of all gradients together, where clip_norm asks for it.
    std::optional<double> norm = {};
    /// Where a gradient is not finite, where on_nonfinite looks for it: the name of the parameter,
    /// and the element.
    std::optional<std::pair<std::string, std::size_t>> nonfinite = {};
};

} // namespace gradstep
