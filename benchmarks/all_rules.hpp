#pragma once
#include "report.hpp"

/// Every rule of the registry against the limit of memory, and what rounding, averages and a model
/// of many parameters add.
void all_rules(report& out, options const& o);
