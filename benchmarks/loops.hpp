#pragma once
#include <vector>

#include "contests.hpp"
#include "report.hpp"

/// What a call costs beyond its arithmetic; loops on streams that lie unfavourably; and ftrl beside its paper's form.
void calls_and_loops(report& out, options const& o, std::vector<contest> const& all);
