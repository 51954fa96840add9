#pragma once
#include <gradstep/base/compiler.hpp>

// Throw sequence_error for a call that comes at the wrong time. `call` is its name.
namespace gradstep::detail::inline GRADSTEP_ABI {
// While an average is in the place of the weights; `restore` while none is.
[[noreturn]] void refuse_applied(char const* call);
[[noreturn]] void refuse_restore();
// Between `ascend` and `descend`; `descend` and `restore` of a parameter whose model has ascended;
// `descend` at another time.
[[noreturn]] void refuse_ascended(char const* call);
[[noreturn]] void refuse_locked(char const* call);
[[noreturn]] void refuse_reshaped();
[[noreturn]] void refuse_descend();
// Between the halves of a compressed step.
[[noreturn]] void refuse_pending(char const* call);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/base/detail/sequence.ipp>
#endif
