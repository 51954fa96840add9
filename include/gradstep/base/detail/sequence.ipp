#pragma once
#include <gradstep/base/error.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void refuse_applied(char const* call) {
    fail<sequence_error>({call}, {"the average is in the place of the weights"}, {"restore() first"});
}
GRADSTEP_DEFINE void refuse_restore() {
    fail<sequence_error>({"restore"}, {"no average is in the place of the weights"}, {"apply_average() first"});
}
GRADSTEP_DEFINE void refuse_ascended(char const* call) {
    fail<sequence_error>({call}, {"ascend() has moved the weights"}, {"descend() or restore() first"});
}
GRADSTEP_DEFINE void refuse_locked(char const* call) {
    fail<sequence_error>({call}, {"ascend() of the model has moved the weights"},
                         {"descend() or restore() of the model first"});
}
GRADSTEP_DEFINE void refuse_reshaped() {
    fail<sequence_error>({"set_shape"}, {"the rule keeps numbers for the rows and columns of another shape"},
                         {"the shape before the first step"});
}
GRADSTEP_DEFINE void refuse_descend() {
    fail<sequence_error>({"descend"}, {"the weights have not been moved"}, {"ascend() first"});
}
GRADSTEP_DEFINE void refuse_pending(char const* call) {
    fail<sequence_error>({call}, {"the messages of the last step have not been applied"}, {"apply() first"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
