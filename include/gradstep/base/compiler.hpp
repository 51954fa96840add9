#pragma once
/// Compiler properties that the library relies on. Every header includes this one before any code
/// that an older standard does not support.

#if __cplusplus < 202002L
#error "gradstep needs C++20: compile with -std=c++20 or a later standard"
#include <gradstep/needs_cxx20> // there is no such file: compilers stop here, where #error lets pages of others follow
#endif

#include <gradstep/base/instruction_set.hpp>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADSTEP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define GRADSTEP_SANITIZED 1
#endif
#endif

/// GRADSTEP_NO_FORCE_INLINE can be defined by a program for a single instruction set: no function
/// is forced inline, so that a build without optimisation takes half the time. Always set under
/// sanitizers, which instrument every inlined copy.
#if defined(GRADSTEP_SANITIZED) && !defined(GRADSTEP_NO_FORCE_INLINE)
#define GRADSTEP_NO_FORCE_INLINE 1
#endif

/// GRADSTEP_HD: a pure function that runs on host and device. It is always inlined into its kernel,
/// so that the linker cannot use a copy compiled for another instruction set.
#if defined(__CUDACC__)
#define GRADSTEP_HD __host__ __device__ __forceinline__
#elif defined(__GNUC__) && !defined(GRADSTEP_NO_FORCE_INLINE)
#define GRADSTEP_HD __attribute__((always_inline)) inline
#else
#define GRADSTEP_HD inline
#endif

/// GRADSTEP_INLINE: the same for functions that run on the host only. GRADSTEP_INLINE_LAMBDA, after
/// a lambda's parameters: the same for lambdas.
#if defined(__GNUC__) && !defined(GRADSTEP_NO_FORCE_INLINE)
#define GRADSTEP_INLINE __attribute__((always_inline)) inline
#define GRADSTEP_INLINE_LAMBDA __attribute__((always_inline))
#else
#define GRADSTEP_INLINE inline
#define GRADSTEP_INLINE_LAMBDA
#endif

/// GRADSTEP_VISIBLE: for types that are compared across shared objects (base/detail/type_id.hpp).
/// They have one identity in all of them, even if -fvisibility=hidden is the default, as in Python
/// extensions.
#if defined(__GNUC__) && !defined(_WIN32)
#define GRADSTEP_VISIBLE __attribute__((visibility("default")))
#else
#define GRADSTEP_VISIBLE
#endif

/// GRADSTEP_NO_UNIQUE_ADDRESS: the attribute [[no_unique_address]], which saves memory for members
/// that can be empty. Not under nvcc: on the device, nvcc 13 finds neither the members after an
/// empty member with it nor the elements of an array of such objects, since its offsets there do
/// not fit its sizeof. Under nvcc, the types of kernels are in another namespace (GRADSTEP_ISA).
#if defined(__CUDACC__)
#define GRADSTEP_NO_UNIQUE_ADDRESS
#else
#define GRADSTEP_NO_UNIQUE_ADDRESS [[no_unique_address]]
#endif

/// GRADSTEP_UNROLL, before a loop with a small constant number of iterations: unrolls it
/// completely. GRADSTEP_KEEP_LOOP: does not unroll it.
#if defined(__clang__)
#define GRADSTEP_UNROLL _Pragma("clang loop unroll(full)")
#define GRADSTEP_KEEP_LOOP _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define GRADSTEP_UNROLL _Pragma("GCC unroll 16")
#define GRADSTEP_KEEP_LOOP _Pragma("GCC unroll 1")
#else
#define GRADSTEP_UNROLL
#define GRADSTEP_KEEP_LOOP
#endif

#if defined(__FAST_MATH__) && !defined(GRADSTEP_ALLOW_FAST_MATH) && !defined(__CUDACC__)
#warning                                                                                                               \
    "gradstep: -ffast-math voids the contract of equal bits and of NaN handling (GRADSTEP_ALLOW_FAST_MATH: silence)"
#endif
