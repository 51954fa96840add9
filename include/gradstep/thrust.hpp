#pragma once
/// The umbrella header for Thrust's systems: core.hpp and the Thrust backend (CUDA under nvcc; the
/// CPU systems OMP, TBB and CPP). For tables on a device include gradstep/thrust/table.hpp. If
/// xsimd is installed, gradstep/gradstep.hpp adds the simd backend.

#include <gradstep/core.hpp>
#include <gradstep/thrust/backend.hpp>
