#pragma once
#include "report.hpp"

/// All that follows a backward pass, against a step of adam alone.
void whole_tail(report& out, options const& o);
