#pragma once
/// The counters of a window average as Paddle's ModelAverage keeps them beside its sums.

#include <algorithm>
#include <cstdint>

#include <gradstep/averaging/window.hpp>

struct window_counters {
    std::int64_t num_updates = 0, num_accumulates = 0, old_num_accumulates = 0;

    /// Counts a step; whether the window closes after it.
    bool count(gradstep::window const& policy) {
        num_updates += 1;
        num_accumulates += 1;
        if (num_accumulates < policy.min ||
            static_cast<double>(num_accumulates) <
                std::min(static_cast<double>(policy.max), static_cast<double>(num_updates) * policy.rate))
            return false;
        old_num_accumulates = num_accumulates;
        num_accumulates = 0;
        return true;
    }
};
