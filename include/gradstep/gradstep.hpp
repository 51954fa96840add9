#pragma once
/// The umbrella header: all.hpp (policies, updater, parameter, model, tables, presets, clipping,
/// thread pool) and the simd backend. nvcc cannot parse xsimd, so the simd backend is left out
/// under nvcc: include gradstep/thrust.hpp there.

#include <gradstep/all.hpp>

#if !defined(__CUDACC__)
#include <gradstep/backends/simd.hpp>
#endif
