#pragma once
#include "report.hpp"

/// Threads beside strangers: a pool and OpenMP against one thread, while every other core is kept busy by somebody else,
/// and while it is not.
void beside_strangers(report& out, options const& o);
