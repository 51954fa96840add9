#pragma once
/// Compiler facts that the rest of the library is written against. Every header includes this one before anything that
/// an older standard does not know.

#if __cplusplus < 202002L
#error "gradstep needs C++20: compile with -std=c++20 or a later standard"
#include <gradstep/needs_cxx20> // there is no such file: compilers stop here, where #error lets pages of others follow
#endif

#include <gradstep/core/instruction_set.hpp>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADSTEP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define GRADSTEP_SANITIZED 1
#endif
#endif

/// GRADSTEP_PLAIN_FUNCTIONS, which a program of one instruction set may define: no function is forced into its caller, so that a
/// build without optimisation takes half of the time. Always under sanitizers, which instrument every inlined copy.
#if defined(GRADSTEP_SANITIZED) && !defined(GRADSTEP_PLAIN_FUNCTIONS)
#define GRADSTEP_PLAIN_FUNCTIONS 1
#endif

/// GRADSTEP_HD: a pure function that runs on host and device and is always inlined into its kernel, so that no copy of
/// it compiled for one instruction set can be picked by the linker for another.
#if defined(__CUDACC__)
#define GRADSTEP_HD __host__ __device__ __forceinline__
#elif defined(__GNUC__) && !defined(GRADSTEP_PLAIN_FUNCTIONS)
#define GRADSTEP_HD __attribute__((always_inline)) inline
#else
#define GRADSTEP_HD inline
#endif

/// GRADSTEP_INLINE, and GRADSTEP_INLINE_LAMBDA after a lambda's parameters: the same for functions of the host alone.
#if defined(__GNUC__) && !defined(GRADSTEP_PLAIN_FUNCTIONS)
#define GRADSTEP_INLINE __attribute__((always_inline)) inline
#define GRADSTEP_INLINE_LAMBDA __attribute__((always_inline))
#else
#define GRADSTEP_INLINE inline
#define GRADSTEP_INLINE_LAMBDA
#endif

/// GRADSTEP_VISIBLE, of types that are compared across shared objects (core/type_id.hpp): one identity in all of them, even
/// where -fvisibility=hidden is the default, as in Python extensions.
#if defined(__GNUC__) && !defined(_WIN32)
#define GRADSTEP_VISIBLE __attribute__((visibility("default")))
#else
#define GRADSTEP_VISIBLE
#endif

/// GRADSTEP_UNROLL, before a loop of a few iterations whose number is a constant: no loop is left of it.
#if defined(__clang__)
#define GRADSTEP_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define GRADSTEP_UNROLL _Pragma("GCC unroll 16")
#else
#define GRADSTEP_UNROLL
#endif

#if defined(__FAST_MATH__) && !defined(GRADSTEP_ALLOW_FAST_MATH) && !defined(__CUDACC__)
#warning                                                                                                               \
    "gradstep: -ffast-math voids the contract of equal bits and of NaN handling (GRADSTEP_ALLOW_FAST_MATH: silence)"
#endif
