#pragma once
#include <cstdint>
#include <vector>

#include <gradstep/core/clock.hpp>

namespace gradstep {

/// Everything of a row_updater that a checkpoint needs beside the rows' memory: with both a run resumes bit for bit,
/// without a flush. Plain numbers, in the order of their names.
struct row_progress {
    gradstep::clock clock;
    /// The step at which the rolling sweep began its lap, and the row it has come to.
    std::int64_t lap_start = 0;
    std::uint64_t lap_row = 0;
    /// What the kept steps did to rows without gradient, `row_updater::history_numbers` for each, oldest first.
    std::vector<double> history;
};

} // namespace gradstep
