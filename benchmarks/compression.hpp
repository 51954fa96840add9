#pragma once
#include "report.hpp"

/// Compressed gradients: selecting, sending and applying the largest entries against what the
/// memory alone takes.
void compression(report& out, options const& o);
