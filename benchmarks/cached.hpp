#pragma once
#include <vector>

#include "cases.hpp"
#include "report.hpp"

/// What a call costs beyond its arithmetic; loops on streams that lie unfavourably; and ftrl beside
/// its paper's form.
void cached_calls(report& out, options const& o, std::vector<rule_case> const& all);
