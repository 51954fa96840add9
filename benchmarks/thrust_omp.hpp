#pragma once
#include "measure.hpp"

/// One adam step of the Thrust backend on Thrust's OpenMP system with one thread. In a translation
/// unit of its own, which alone needs Thrust and OpenMP. n elements; all streams are float.
measure::call thrust_omp_adam(measure::streams const& s);
