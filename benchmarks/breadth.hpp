#pragma once
#include "report.hpp"

/// Rules that read memory more than once, need matrices or have moving hyperparameters: against
/// memory, adam, or their products.
void breadth(report& out, options const& o);
