#pragma once
#include <span>

#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
/// Updates several parameters with any policies by one step each, in one call. gradients[k] is for
/// all[k]. The call is one pass, split by memory traffic over the threads of the parameter with the
/// most threads. A gradient must not overlap the memory of any parameter, and with zero_gradient no
/// other gradient. Each parameter's options define whether a non-finite gradient is skipped or
/// rejects the call.
///
/// Parameters with the same model-wise rule (prodigy, dog) are one model: their clocks must be
/// equal, and a gradient that is skipped skips the step of all of them.
///
/// Throws the errors of any_parameter::update, with the number of the parameter, and value_error
/// for a duplicate parameter. No parameter has changed then.
void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                step_options const& options = {});
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/update_all.ipp>
#endif
