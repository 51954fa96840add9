#pragma once
#include <gradstep/base/error.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void refuse_norm(double norm, bool of_weights) {
    if (of_weights)
        fail<value_error>({"clip"}, {"the norm of the weights is ", norm},
                          {"a finite norm, which limits the gradient"});
    fail<value_error>({"clip"}, {"the norm of the gradient, or of all gradients that are clipped together, is ", norm},
                      {"a finite norm; on_nonfinite = skip leaves such steps out"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
