#pragma once
#include "report.hpp"

/// What multiply-adds may take from the divider in the caches, against nothing, of every rule that
/// waits for it: by this the processors' entries of `newton_mode_here` are chosen, and the rules'
/// `newton_roots`.
void divider(report& out, options const& o);
