#pragma once
#include "report.hpp"

/// Sparse rows: the tables of gradstep against the traffic of their rows alone, and what its
/// options cost.
void sparse_rows(report& out, options const& o);
