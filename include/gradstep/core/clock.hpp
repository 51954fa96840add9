#pragma once
#include <cstdint>

#include <gradstep/core/compiler.hpp>

namespace gradstep {

/// Where a run stands: updates done, samples seen, epochs finished; all start at 0. It is all that resuming needs
/// besides the buffers. A step advances `step` by 1 and `samples` by what its options say; `epoch` is the host's.
struct clock {
    std::int64_t step = 0;
    std::int64_t samples = 0;
    std::int64_t epoch = 0;

    friend bool operator==(clock const&, clock const&) = default;
};

} // namespace gradstep
