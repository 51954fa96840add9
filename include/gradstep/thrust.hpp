#pragma once
/// The umbrella for Thrust's systems: everything of all.hpp and the Thrust backend (CUDA under nvcc, and the CPU systems OMP, TBB and
/// CPP). Tables on a device are in gradstep/thrust/table.hpp. Where xsimd is there too, gradstep/gradstep.hpp beside it adds the simd
/// backend.

#include <gradstep/all.hpp>
#include <gradstep/thrust/backend.hpp>
