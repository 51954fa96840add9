#pragma once
#include "report.hpp"

/// All that follows a backward pass, against a step of adam alone.
void fused_step(report& out, options const& o);
