#pragma once
/// The instruction set that the compiler's flags select, and its name in the library's namespaces.

/// GRADSTEP_AVX512: whether packs use AVX-512, which requires F, BW, DQ and VL. With fewer
/// extensions (the flag -mavx512f alone, or processors without the others) packs use AVX2.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define GRADSTEP_AVX512 1
#else
#define GRADSTEP_AVX512 0
#endif

/// GRADSTEP_FMA: whether scalar code of this translation unit has a fused multiply-add instruction.
/// All packs of the unit follow it, so that vector body and scalar tail round in the same way.
/// AVX-512 has its own instruction: g++ contracts a product and a sum under -mavx512f, which does
/// not define __FMA__.
#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA)
#define GRADSTEP_FMA 1
#else
#define GRADSTEP_FMA 0
#endif

/// GRADSTEP_EXCEPTIONS: whether errors are thrown. Otherwise (-fno-exceptions) they go to a handler
/// (base/error.hpp).
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define GRADSTEP_EXCEPTIONS 1
#else
#define GRADSTEP_EXCEPTIONS 0
#endif

/// GRADSTEP_ISA: the inline namespace of everything whose code depends on compiler flags. Its name
/// is the level of x86-64 that the flags reach (v1 to v4 as in -march=x86-64-v3), then the
/// extensions beyond it: isa_v3, isa_v4_vbmi_gfni, isa_v2_avx_fma; on AArch64 isa_aarch64 and its
/// extensions.
///
/// Invariant: two translation units with different GRADSTEP_ISA share no function of the library
/// that computes. Two units with the same GRADSTEP_ISA were compiled for the same instructions, as
/// far as compilers select them from C++: the name contains every macro of g++ and clang for such
/// instructions (test/bits/names.py checks all -march). So no unit runs instructions that its
/// processor lacks, or rounds according to another unit's flags. The name does not contain
///     instructions that no compiler selects by itself (cryptography, system), and -mtune;
///     optimisation levels and -ffp-contract, which change no bit (except for AMD's FMA4 without
///     FMA, -march=bdver1, where clang fuses the code of one element but not the code of a pack);
///     the single parts of -ffast-math, which clang does not report;
///     architectures other than x86-64 and AArch64, which share the name isa_other.
/// Policies, exceptions and constants are outside the namespace, and shared. (Policies are plain
/// numbers that can be passed between units; optimising compilers inline their functions.) Also
/// shared, as in every program, are instantiations of the standard library for types that both
/// units name, such as std::vector<float>.
#define GRADSTEP_DETAIL_SECOND_(first, second, ...) second
#define GRADSTEP_DETAIL_SECOND(...) GRADSTEP_DETAIL_SECOND_(__VA_ARGS__)
#define GRADSTEP_DETAIL_WHEN_1 ~,
#define GRADSTEP_DETAIL_IF_(value, name) GRADSTEP_DETAIL_SECOND(GRADSTEP_DETAIL_WHEN_##value name, , ~)
/// `name` if the macro `feature` is 1, else nothing.
#define GRADSTEP_DETAIL_IF(feature, name) GRADSTEP_DETAIL_IF_(feature, name)
#define GRADSTEP_DETAIL_JOIN_(a, b, c, d, e, f, g, h, ...) a##b##c##d##e##f##g##h
#define GRADSTEP_DETAIL_JOIN(...) GRADSTEP_DETAIL_JOIN_(__VA_ARGS__, , , , , , , , )

#if defined(__x86_64__)

#if defined(__SSE3__) && defined(__SSSE3__) && defined(__SSE4_1__) && defined(__SSE4_2__) && defined(__POPCNT__)
#define GRADSTEP_DETAIL_V2 v2
#else
#define GRADSTEP_DETAIL_V2                                                                                             \
    GRADSTEP_DETAIL_JOIN(v1, GRADSTEP_DETAIL_IF(__SSE3__, _sse3), GRADSTEP_DETAIL_IF(__SSSE3__, _ssse3),               \
                         GRADSTEP_DETAIL_IF(__SSE4_1__, _sse4_1), GRADSTEP_DETAIL_IF(__SSE4_2__, _sse4_2),             \
                         GRADSTEP_DETAIL_IF(__POPCNT__, _popcnt))
#endif

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__BMI__) && defined(__BMI2__) &&             \
    defined(__LZCNT__) && defined(__MOVBE__) && defined(__POPCNT__)
#define GRADSTEP_DETAIL_V3 v3
#else
#define GRADSTEP_DETAIL_V3                                                                                             \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_V2, GRADSTEP_DETAIL_IF(__AVX__, _avx),                   \
                                              GRADSTEP_DETAIL_IF(__AVX2__, _avx2)),                                    \
                         GRADSTEP_DETAIL_IF(__FMA__, _fma), GRADSTEP_DETAIL_IF(__F16C__, _f16c),                       \
                         GRADSTEP_DETAIL_IF(__BMI__, _bmi), GRADSTEP_DETAIL_IF(__BMI2__, _bmi2),                       \
                         GRADSTEP_DETAIL_IF(__LZCNT__, _lzcnt), GRADSTEP_DETAIL_IF(__MOVBE__, _movbe))
#endif

// All flags that begin with AVX512 imply F; v4 is v3 and five of them.
#if !defined(__AVX512F__)
#define GRADSTEP_DETAIL_V4 GRADSTEP_DETAIL_V3
#define GRADSTEP_DETAIL_OF_512
#else
#if GRADSTEP_AVX512 && defined(__AVX512CD__) && defined(__FMA__) && defined(__F16C__) && defined(__BMI__) &&           \
    defined(__BMI2__) && defined(__LZCNT__) && defined(__MOVBE__) && defined(__POPCNT__)
#define GRADSTEP_DETAIL_V4 v4
#else
#define GRADSTEP_DETAIL_V4                                                                                             \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_V3, _avx512f, GRADSTEP_DETAIL_IF(__AVX512CD__, _avx512cd),                    \
                         GRADSTEP_DETAIL_IF(__AVX512BW__, _avx512bw), GRADSTEP_DETAIL_IF(__AVX512DQ__, _avx512dq),     \
                         GRADSTEP_DETAIL_IF(__AVX512VL__, _avx512vl))
#endif
#define GRADSTEP_DETAIL_OF_512                                                                                         \
    GRADSTEP_DETAIL_JOIN(                                                                                              \
        GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_IF(__AVX512IFMA__, _ifma), GRADSTEP_DETAIL_IF(__AVX512VBMI__, _vbmi),     \
                             GRADSTEP_DETAIL_IF(__AVX512VBMI2__, _vbmi2), GRADSTEP_DETAIL_IF(__AVX512VNNI__, _vnni),   \
                             GRADSTEP_DETAIL_IF(__AVX512BITALG__, _bitalg)),                                           \
        GRADSTEP_DETAIL_IF(__AVX512VPOPCNTDQ__, _vpopcntdq), GRADSTEP_DETAIL_IF(__AVX512BF16__, _bf16),                \
        GRADSTEP_DETAIL_IF(__AVX512FP16__, _fp16), GRADSTEP_DETAIL_IF(__AVX10_1__, _avx10_1),                          \
        GRADSTEP_DETAIL_IF(__AVX10_2__, _avx10_2))
#endif
#define GRADSTEP_DETAIL_OF_256                                                                                         \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_IF(__AVXVNNI__, _avxvnni), GRADSTEP_DETAIL_IF(__AVXIFMA__, _avxifma),         \
                         GRADSTEP_DETAIL_IF(__AVXVNNIINT8__, _avxvnniint8),                                            \
                         GRADSTEP_DETAIL_IF(__AVXVNNIINT16__, _avxvnniint16),                                          \
                         GRADSTEP_DETAIL_IF(__AVXNECONVERT__, _avxneconvert), GRADSTEP_DETAIL_IF(__GFNI__, _gfni),     \
                         GRADSTEP_DETAIL_IF(__PCLMUL__, _pclmul), GRADSTEP_DETAIL_IF(__VPCLMULQDQ__, _vpclmulqdq))
#define GRADSTEP_DETAIL_OF_64                                                                                          \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_IF(__SSE4A__, _sse4a), GRADSTEP_DETAIL_IF(__FMA4__, _fma4),                   \
                         GRADSTEP_DETAIL_IF(__XOP__, _xop), GRADSTEP_DETAIL_IF(__TBM__, _tbm),                         \
                         GRADSTEP_DETAIL_IF(__CMPCCXADD__, _cmpccxadd), GRADSTEP_DETAIL_IF(__RAOINT__, _raoint),       \
                         GRADSTEP_DETAIL_IF(__APX_F__, _apx))
#define GRADSTEP_DETAIL_FLAGS                                                                                          \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_V4, GRADSTEP_DETAIL_OF_512, GRADSTEP_DETAIL_OF_256, GRADSTEP_DETAIL_OF_64)

#elif defined(__aarch64__)

#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0 // a fixed width that the compiler relies on
#define GRADSTEP_DETAIL_SVE GRADSTEP_DETAIL_JOIN(_sve, __ARM_FEATURE_SVE_BITS)
#else
#define GRADSTEP_DETAIL_SVE GRADSTEP_DETAIL_IF(__ARM_FEATURE_SVE, _sve)
#endif
#define GRADSTEP_DETAIL_NUMBERS                                                                                        \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_SVE, GRADSTEP_DETAIL_IF(__ARM_FEATURE_SVE2, _sve2),                           \
                         GRADSTEP_DETAIL_IF(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC, _fp16),                              \
                         GRADSTEP_DETAIL_IF(__ARM_FEATURE_FP16_FML, _fp16fml),                                         \
                         GRADSTEP_DETAIL_IF(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC, _bf16),                              \
                         GRADSTEP_DETAIL_IF(__ARM_FEATURE_MATMUL_INT8, _i8mm),                                         \
                         GRADSTEP_DETAIL_IF(__ARM_FEATURE_DOTPROD, _dotprod),                                          \
                         GRADSTEP_DETAIL_IF(__ARM_FEATURE_SHA3, _sha3))
#define GRADSTEP_DETAIL_REST                                                                                           \
    GRADSTEP_DETAIL_JOIN(                                                                                              \
        GRADSTEP_DETAIL_IF(__ARM_FEATURE_ATOMICS, _lse), GRADSTEP_DETAIL_IF(__ARM_FEATURE_RCPC, _rcpc),                \
        GRADSTEP_DETAIL_IF(__ARM_FEATURE_QRDMX, _rdm), GRADSTEP_DETAIL_IF(__ARM_FEATURE_COMPLEX, _complex),            \
        GRADSTEP_DETAIL_IF(__ARM_FEATURE_JCVT, _jscvt), GRADSTEP_DETAIL_IF(__ARM_FEATURE_FRINT, _frint),               \
        GRADSTEP_DETAIL_IF(__ARM_FEATURE_MOPS, _mops))
#define GRADSTEP_DETAIL_FLAGS GRADSTEP_DETAIL_JOIN(aarch64, GRADSTEP_DETAIL_NUMBERS, GRADSTEP_DETAIL_REST)

#else
#define GRADSTEP_DETAIL_FLAGS other
#endif

// Besides instructions: under -ffast-math the same code has different bits; without exceptions it
// ends differently.
#if defined(__FAST_MATH__)
#define GRADSTEP_DETAIL_FAST_MATH _fast_math
#else
#define GRADSTEP_DETAIL_FAST_MATH
#endif
#if GRADSTEP_EXCEPTIONS
#define GRADSTEP_DETAIL_EXCEPTIONS
#else
#define GRADSTEP_DETAIL_EXCEPTIONS _no_exceptions
#endif
#if defined(__CUDACC__)
#define GRADSTEP_DETAIL_COMPILER cuda_isa_
#else
#define GRADSTEP_DETAIL_COMPILER isa_
#endif
#define GRADSTEP_ISA                                                                                                   \
    GRADSTEP_DETAIL_JOIN(GRADSTEP_DETAIL_COMPILER, GRADSTEP_DETAIL_FLAGS, GRADSTEP_DETAIL_FAST_MATH,                   \
                         GRADSTEP_DETAIL_EXCEPTIONS)

/// GRADSTEP_HEADER_ONLY: whether headers include their definitions. Functions that are not
/// templates and contain no kernel, such as the readers of configurations, are declared in a header
/// and defined in an .ipp file beside it. By default the header includes this file. A program that
/// links gradstep::compiled gets the definitions from the library and compiles faster: the target
/// defines GRADSTEP_COMPILED, and no header includes an .ipp file. Code without exceptions and CUDA
/// code is always header-only.
///
/// GRADSTEP_ABI: the inline namespace of these functions and of the types in their signatures. In
/// header-only mode it is GRADSTEP_ISA. With gradstep::compiled it is `abi`, so that units of every
/// instruction set call the same functions. Such units also share the inline functions of these
/// types and the templates over them, just as they share code of the standard library.
///
/// GRADSTEP_DEFINE: the first word of each definition in an .ipp. A virtual function that is
/// defined there has it in its declaration too: else every header-only file that includes the
/// header would compile the class's table of virtual functions.
#if defined(GRADSTEP_COMPILED) && GRADSTEP_EXCEPTIONS && !defined(__CUDACC__)
#define GRADSTEP_HEADER_ONLY 0
#define GRADSTEP_ABI abi
#define GRADSTEP_DEFINE
#else
#define GRADSTEP_HEADER_ONLY 1
#define GRADSTEP_ABI GRADSTEP_ISA
#define GRADSTEP_DEFINE inline
#endif
