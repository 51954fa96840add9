#pragma once
#include <cmath>
#include <limits>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// What holds the norm of a parameter's gradient to a limit of its own: that of the parameter, or of
// all with the same limit.
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
