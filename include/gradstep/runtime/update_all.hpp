#pragma once
#include <span>

#include <gradstep/core/step_options.hpp>
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep {
inline namespace GRADSTEP_RUNTIME_ABI {

/// One step of each of several parameters with any policies, in one call: gradients[k] belongs to
/// all[k]. The work is one pass, split by memory traffic over the threads of the parameter with the
/// most threads. A gradient must not overlap the memory of any parameter, and with zero_gradient no
/// other gradient. A non-finite gradient is skipped, or rejects the call, as the options of its
/// parameter define.
///
/// Throws the errors of any_parameter::update, with the number of the parameter, and value_error
/// for a duplicate parameter. No parameter has changed then.
void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                step_options const& options = {});

} // namespace GRADSTEP_RUNTIME_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/update_all.ipp>
#endif
