#pragma once
#include <gradstep/model/detail/step_driver.hpp>
#include <gradstep/runtime/detail/definitions.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// Memory that a call of any_parameter keeps for the next call.
struct parameter_scratch {
    std::vector<std::int64_t> ids;
    step_driver driver; // for its own steps, and for calls of update_all whose first parameter it is
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
