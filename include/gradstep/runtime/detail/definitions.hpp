#pragma once
#include <gradstep/base/compiler.hpp>

/// GRADSTEP_RUNTIME: whether gradstep::runtime defines the updaters and parameters of run time. A
/// program that links it has this macro from the target. gradstep::compiled contains no
/// combinations of policies, for which their code searches. So programs that link it alone define
/// these functions inline, as header-only programs do.
///
/// GRADSTEP_DEFINE_RUNTIME: the first word of each such definition.
///
/// GRADSTEP_RUNTIME_ABI: the inline namespace of these functions and types. Inline functions
/// contain loops over elements, so they are in the namespace of the instruction set.
#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#define GRADSTEP_DEFINE_RUNTIME inline
#define GRADSTEP_RUNTIME_ABI GRADSTEP_ISA
#else
#define GRADSTEP_DEFINE_RUNTIME
#define GRADSTEP_RUNTIME_ABI GRADSTEP_ABI
#endif
