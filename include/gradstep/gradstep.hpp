#pragma once
/// The umbrella header: core.hpp (policies, updater, parameter, model, tables, clipping, thread
/// pool) and the simd backend. nvcc cannot parse xsimd, so the simd backend is left out
/// under nvcc: include gradstep/thrust.hpp there.

#include <gradstep/core.hpp>

#if !defined(__CUDACC__)
#include <gradstep/backends/simd.hpp>
#endif
