#include <gradstep/core/error.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

GRADSTEP_DEFINE void refuse_norm(double norm) {
    fail<value_error>({"the norm of the gradient, or of those that are clipped with it, is ", norm,
                       ", by which clip cannot scale; on_nonfinite = skip leaves such steps out"});
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
