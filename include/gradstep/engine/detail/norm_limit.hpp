#pragma once
#include <cmath>
#include <limits>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Clips the gradient of a parameter that has a limit of its own: by the norm of this gradient, or
// of all gradients with the same limit. The limit is a number, or follows the norm of the weights.
struct norm_limit {
    double limit = std::numeric_limits<double>::infinity();
    bool of_all = false;
    // If the limit is this times the norm of the weights, or times epsilon: not 0.
    double ratio = 0, epsilon = 0;

    bool is_adaptive() const { return ratio != 0; }
    bool is_none() const { return std::isinf(limit) && !is_adaptive(); }
};

// Throws value_error for a norm that is not finite.
[[noreturn]] void refuse_norm(double norm, bool of_weights);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/norm_limit.ipp>
#endif
