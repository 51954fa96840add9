#pragma once
#include <cstdint>

#include <gradstep/core/compiler.hpp>

namespace gradstep {

/// The progress of a run: updates done, samples seen, epochs finished; all start at 0. To resume,
/// you need only the clock and the buffers. A step advances `step` by 1 and `samples` by the number
/// in its options; your application sets `epoch`.
struct clock {
    std::int64_t step = 0;
    std::int64_t samples = 0;
    std::int64_t epoch = 0;

    friend bool operator==(clock const&, clock const&) = default;
};

} // namespace gradstep
