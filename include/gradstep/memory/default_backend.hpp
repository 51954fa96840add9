#pragma once
#include <gradstep/base/compiler.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The backend that `make_updater` uses by default: its member `type`. backends/simd.hpp defines
/// it. Without that header you must name a backend.
template <class Element> struct default_backend;
} // namespace gradstep::inline GRADSTEP_ISA
