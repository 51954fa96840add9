#pragma once
#include <gradstep/compression/detail/message_task.hpp>
#include <gradstep/runtime/any_parameter.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/detail/definitions.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// Makes the object with which a gs::compressed_model has an any_parameter;
// gs::compressed_model::add calls it.
made_message_task make_message_task(std::string name, std::unique_ptr<dense_parameter> of, tensor_options options);
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/message_task.ipp>
#endif
