#pragma once
/// Compiler facts that the rest of the library is written against.

// Sanitizers instrument every inlined copy, and their compile time explodes: there functions are functions.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GRADSTEP_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define GRADSTEP_SANITIZED 1
#endif
#endif

/// GRADSTEP_HD: a pure function that runs on host and device and is always inlined into its kernel, so that no copy of
/// it compiled for one instruction set can be picked by the linker for another.
#if defined(__CUDACC__)
#define GRADSTEP_HD __host__ __device__ __forceinline__
#elif defined(__GNUC__) && !defined(GRADSTEP_SANITIZED)
#define GRADSTEP_HD __attribute__((always_inline)) inline
#else
#define GRADSTEP_HD inline
#endif

/// GRADSTEP_INLINE, and GRADSTEP_INLINE_LAMBDA after a lambda's parameters: the same for functions of the host alone.
#if defined(__GNUC__) && !defined(GRADSTEP_SANITIZED)
#define GRADSTEP_INLINE __attribute__((always_inline)) inline
#define GRADSTEP_INLINE_LAMBDA __attribute__((always_inline))
#else
#define GRADSTEP_INLINE inline
#define GRADSTEP_INLINE_LAMBDA
#endif

/// GRADSTEP_FMA: whether scalar code of this translation unit has a fused multiply-add instruction. All packs of the
/// unit follow it, so that vector body and scalar tail round alike.
#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define GRADSTEP_FMA 1
#else
#define GRADSTEP_FMA 0
#endif

/// GRADSTEP_ISA: the inline namespace of everything whose code depends on the instruction set. Two translation units
/// with different -march flags then never share a symbol; policies (plain numbers) stay outside and may be passed
/// between them.
#if defined(__CUDACC__)
#define GRADSTEP_ISA_HOST(level) cuda_##level
#else
#define GRADSTEP_ISA_HOST(level) level
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define GRADSTEP_ISA GRADSTEP_ISA_HOST(isa_avx512)
#elif defined(__AVX2__) && defined(__FMA__)
#define GRADSTEP_ISA GRADSTEP_ISA_HOST(isa_avx2_fma)
#elif defined(__AVX2__)
#define GRADSTEP_ISA GRADSTEP_ISA_HOST(isa_avx2)
#elif defined(__AVX__)
#define GRADSTEP_ISA GRADSTEP_ISA_HOST(isa_avx)
#elif defined(__SSE4_1__)
#define GRADSTEP_ISA GRADSTEP_ISA_HOST(isa_sse4)
#else
#define GRADSTEP_ISA GRADSTEP_ISA_HOST(isa_base)
#endif

/// GRADSTEP_EXCEPTIONS: whether errors are thrown. Without (-fno-exceptions) they go to a handler (core/error.hpp).
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define GRADSTEP_EXCEPTIONS 1
#else
#define GRADSTEP_EXCEPTIONS 0
#endif

#if defined(__FAST_MATH__) && !defined(GRADSTEP_ALLOW_FAST_MATH) && !defined(__CUDACC__)
#warning                                                                                                               \
    "gradstep: -ffast-math voids the contract of equal bits and of NaN handling (GRADSTEP_ALLOW_FAST_MATH: silence)"
#endif
