#pragma once
#include <gradstep/core/compiler.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// The backend that `make_updater` takes when you name none: its member `type`. backends/simd.hpp defines it; without that header
/// you name a backend.
template <class Element> struct default_backend;

} // namespace GRADSTEP_ISA
} // namespace gradstep
