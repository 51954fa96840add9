#pragma once
#include <array>
#include <cstdint>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// Numbers that a rule computes from all steps so far, such as the running weight of an average. A
/// rule names the ones that it uses (`clock_state_names`); the others, and the state of a rule
/// without names, are 0.
using clock_state = std::array<double, 4>;

/// The progress of a run: updates done, samples seen, epochs finished; all start at 0. To resume,
/// you need only the clock and the buffers. A step advances `step` by 1 and `samples` by the number
/// in its options; your application sets `epoch`. `state` belongs to the rule: pass it on as it is.
struct clock {
    std::int64_t step = 0;
    std::int64_t samples = 0;
    std::int64_t epoch = 0;
    clock_state state = {};

    friend bool operator==(clock const&, clock const&) = default;
};
} // namespace gradstep
