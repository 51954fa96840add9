#pragma once
/// The umbrella: everything of all.hpp (policies, updater, parameter, model, tables, dialects, clipping, thread pool) and
/// the simd backend. Under nvcc the simd backend stays out, since nvcc does not parse xsimd: include
/// gradstep/thrust.hpp there.

#include <gradstep/all.hpp>

#if !defined(__CUDACC__)
#include <gradstep/backends/simd.hpp>
#endif
