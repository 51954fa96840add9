#pragma once
#include <gradstep/compression/detail/message_task.hpp>
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/detail/definitions.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
/// @cond
/// Makes the object with which a gs::compressed_model owns a parameter whose policies are chosen at
/// run time. gs::compressed_model::add calls it. The parameter owns its memory, or uses your
/// memory.
detail::made_message_task make_message_task(std::string name, any_parameter owned, tensor_options options);
detail::made_message_task make_message_task(std::string name, any_updater const& optimizer, any_tensor const& tensor,
                                            tensor_options options);
/// @endcond
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/message_task.ipp>
#endif
