#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <gradstep/backends/forks.hpp>
#include <gradstep/backends/thread_count.hpp>
#include <gradstep/core/executor.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// Runs the parts of a call as TBB tasks, for a host whose threads are TBB's: in the arena that the caller is in, or in
/// an arena of the executor's own. TBB starts its threads at the first call that needs them and keeps them for the
/// process; arenas share them. Where it can, TBB runs a part on the thread that ran it in the last call, so that a core
/// finds again what it has in its cache.
///
/// Calls from several threads at once, and from inside TBB's tasks, are safe. While the caller waits for the last parts
/// it runs no other task of the host: it may hold a lock (a `striped` table's writer does) that the task wants. Parts
/// run although the host cancels the tasks around the call, and in the caller's floating-point mode. `work` does not
/// throw.
///
/// After a fork the child has no threads of TBB. There an executor that was made before runs everything on its caller's
/// thread.
class tbb_executor {
public:
    /// The caller's arena at each call; outside of any arena, TBB's default one.
    tbb_executor() = default;
    /// An arena of `threads` threads, the caller's included; 0 is the default. Throws value_error outside [0, 65535].
    template <std::integral Count> explicit tbb_executor(Count threads) {
        if (int const count = detail::thread_count("tbb_executor", threads); count != 0) arena_.emplace(count);
    }
    tbb_executor(tbb_executor const&) = delete; // a copy of an arena would be another arena
    tbb_executor& operator=(tbb_executor const&) = delete;

    /// The threads of the arena, and not more than the process has for TBB (tbb::global_control, by default the cores).
    std::size_t concurrency() const {
        if (detail::forks() != forks_) return 1;
        int const of_arena = arena_ ? arena_->max_concurrency() : tbb::this_task_arena::max_concurrency();
        return std::min(static_cast<std::size_t>(of_arena),
                        tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
    }

    void run(std::size_t parts, task work) {
        if (parts < 2 || concurrency() < 2) return serial_executor{}.run(parts, work);
        // A context of its own: one that the host cancels would leave parts out.
        tbb::task_group_context context(tbb::task_group_context::isolated);
        context.capture_fp_settings();
        auto const run_all = [&] {
            tbb::this_task_arena::isolate(
                [&] { tbb::parallel_for(std::size_t(0), parts, work, tbb::static_partitioner{}, context); });
        };
        if (arena_) arena_->execute(run_all);
        else run_all();
    }

private:
    std::uint32_t forks_ = detail::forks();
    std::optional<tbb::task_arena> arena_;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
