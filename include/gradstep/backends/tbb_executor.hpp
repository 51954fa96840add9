#pragma once
#include <optional>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <gradstep/backends/detail/forks.hpp>
#include <gradstep/backends/detail/thread_count.hpp>
#include <gradstep/memory/executor.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// Runs the parts of a call as TBB tasks, for applications that use TBB's threads. The tasks run in
/// the caller's arena or in an arena that the executor owns. TBB starts its threads at the first
/// call that needs them and keeps them until the process ends; arenas share them. If possible, TBB
/// runs a part on the same thread as in the last call, so that the core finds its data in its
/// cache.
///
/// You can call `run` from several threads at once and from inside TBB tasks. While the caller
/// waits for the last parts, its thread runs no other task of your application: the caller may hold
/// a lock (the writer of a `striped` table does) that the task needs. Parts run even if your
/// application cancels the tasks around the call. They run in the caller's floating-point mode.
/// `work` must not throw.
///
/// After a fork, the child process has no TBB threads. An executor from before the fork runs all
/// parts on the caller's thread.
class tbb_executor {
public:
    /// Uses the caller's arena at each call. Outside of any arena, uses TBB's default arena.
    tbb_executor() = default;
    /// Owns an arena of `threads` threads, including the caller's. 0 is the default number. Throws
    /// value_error outside [0, 65535].
    template <std::integral Count> explicit tbb_executor(Count threads) {
        if (int const count = detail::thread_count("tbb_executor", threads); count != 0) arena_.emplace(count);
    }
    tbb_executor(tbb_executor const&) = delete; // a copy would have another arena
    tbb_executor& operator=(tbb_executor const&) = delete;

    /// The number of threads of the arena, limited by TBB's threads in this process
    /// (tbb::global_control, by default the number of cores).
    std::size_t concurrency() const {
        if (detail::forks() != forks_) return 1;
        int const of_arena = arena_ ? arena_->max_concurrency() : tbb::this_task_arena::max_concurrency();
        return std::min(static_cast<std::size_t>(of_arena),
                        tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
    }

    void run(std::size_t parts, task work) {
        if (parts < 2 || concurrency() < 2) return serial_executor{}.run(parts, work);
        // An isolated context: if the application cancelled its own context, parts would be left
        // out.
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
} // namespace gradstep::inline GRADSTEP_ISA
