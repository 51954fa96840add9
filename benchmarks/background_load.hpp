#pragma once
#include "report.hpp"

/// Threads under background load: a pool and OpenMP against one thread, while every other core is
/// kept busy by other programs, and while it is not.
void under_background_load(report& out, options const& o);
