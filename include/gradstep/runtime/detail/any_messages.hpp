#pragma once
#include <gradstep/compression/detail/dense_messages.hpp>
#include <gradstep/runtime/detail/definitions.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// How an any_parameter sends its whole gradient. gs::compressed_model::add calls it.
dense_messages const* any_messages(dense_parameter const& of);
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/detail/any_messages.ipp>
#endif
