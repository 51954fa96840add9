#pragma once
#include <cmath>
#include <limits>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// Clips the gradient of a parameter that has a limit of its own: by the norm of this gradient, or of
// all gradients with the same limit.
struct norm_limit {
    double limit = std::numeric_limits<double>::infinity();
    bool of_all = false;

    bool is_none() const { return std::isinf(limit); }
};

// Throws value_error for a norm that is not finite.
[[noreturn]] void refuse_norm(double norm);

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/norm_limit.ipp>
#endif
