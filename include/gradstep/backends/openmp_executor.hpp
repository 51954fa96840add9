#pragma once
#if !defined(_OPENMP)
#error "gradstep: openmp_executor.hpp needs OpenMP: link gradstep::openmp, or compile and link with -fopenmp"
#endif

#include <omp.h>

#include <gradstep/backends/detail/forks.hpp>
#include <gradstep/backends/detail/thread_count.hpp>
#include <gradstep/memory/executor.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// Runs the parts of a call in one OpenMP parallel region, for applications that use OpenMP's
/// threads. In every call, part p runs on thread p mod n of a team of n threads. Each core then
/// finds its data from the last call in its cache.
///
/// Inside a parallel region of your application, OpenMP does not nest further by default
/// (OMP_MAX_ACTIVE_LEVELS): all parts then run on the caller's thread. You can call `run` from
/// several threads at once, but OpenMP gives each of these threads a separate team. A thread_pool
/// or a tbb_executor shares its threads between callers. Waiting threads spin or sleep according to
/// OMP_WAIT_POLICY. `work` must not throw: an exception that leaves the region ends the program.
///
/// After a fork, the child process has no OpenMP threads, and GNU's runtime would wait for them for
/// ever. An executor from before the fork therefore runs all parts on the caller's thread.
///
/// Thrust's OMP system, and a BLAS that was built with the same OpenMP runtime, use the same
/// threads.
class openmp_executor {
public:
    /// Uses omp_get_max_threads() at each call, so that a later omp_set_num_threads() takes effect.
    openmp_executor() = default;
    /// Uses `threads` threads, including the caller's. 0 is the default number. Throws value_error
    /// outside [0, 65535].
    template <std::integral Count>
    explicit openmp_executor(Count threads) : threads_(detail::thread_count("openmp_executor", threads)) {}

    /// The number of parts that a call from this thread runs concurrently. 1 if OpenMP would not
    /// start a team.
    std::size_t concurrency() const {
        if (detail::forks() != forks_ || omp_get_active_level() >= omp_get_max_active_levels()) return 1;
        return static_cast<std::size_t>(threads_ == 0 ? omp_get_max_threads() : threads_);
    }

    void run(std::size_t parts, task work) const {
        int const threads = static_cast<int>(std::min(parts, concurrency()));
        if (threads < 2) return serial_executor{}.run(parts, work);
            // A shared loop, not one part per thread: OpenMP may start fewer threads than
            // requested.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (std::size_t part = 0; part < parts; ++part) work(part);
    }

private:
    std::uint32_t forks_ = detail::forks();
    int threads_ = 0;
};
} // namespace gradstep::inline GRADSTEP_ISA
