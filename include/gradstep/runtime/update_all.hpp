#pragma once
#include <span>

#include <gradstep/model/norms.hpp>
#include <gradstep/model/pieces.hpp>
#include <gradstep/runtime/any_parameter.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// One step of each of several parameters, with whatever policies, in one call: gradients[k] is that of all[k]. One pass, split by
/// memory traffic over the threads of the one that has most. All are checked before any is written: a gradient must lie apart from the
/// memory of every parameter, and under zero_gradient from the other gradients. A gradient that is not finite is left out, or refuses the call, as the options of its parameter say. Throws as
/// any_parameter::update, naming the number of the parameter, and value_error for one that is there twice; all are then as they were.
void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                step_options const& options = {});

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/update_all.ipp>
#endif
