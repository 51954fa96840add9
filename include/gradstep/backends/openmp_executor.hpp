#pragma once
#if !defined(_OPENMP)
#error "gradstep: openmp_executor.hpp needs OpenMP: link gradstep::openmp, or compile and link with -fopenmp"
#endif
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <omp.h>

#include <gradstep/backends/forks.hpp>
#include <gradstep/backends/thread_count.hpp>
#include <gradstep/core/executor.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// Runs the parts of a call in one OpenMP parallel region, for a host whose threads are OpenMP's. Part p runs on thread
/// p mod n of the team of n in every call, so that a core finds again what it has in its cache.
///
/// Inside a parallel region of the host OpenMP nests no further by default (OMP_MAX_ACTIVE_LEVELS): there everything
/// runs on the caller's thread. Calls from several threads at once are safe, but OpenMP gives each of these threads a
/// team of its own; a thread_pool or a tbb_executor shares theirs. Threads that wait spin or sleep as OMP_WAIT_POLICY
/// says. `work` does not throw: an exception that left the region would end the program.
///
/// After a fork the child has no threads of OpenMP, and GNU's runtime would wait for them for ever: there an executor that
/// was made before runs everything on its caller's thread.
///
/// Thrust's OMP system, and a BLAS that was built with the same OpenMP runtime, run on the same threads.
class openmp_executor {
public:
    /// What omp_get_max_threads() says at each call, so that a later omp_set_num_threads() of the host holds.
    openmp_executor() = default;
    /// `threads` threads, the caller's included; 0 is the default. Throws value_error outside [0, 65535].
    template <std::integral Count>
    explicit openmp_executor(Count threads) : threads_(detail::thread_count("openmp_executor", threads)) {}

    /// The parts that a call of this thread would run at a time: 1 where OpenMP would not start a team.
    std::size_t concurrency() const {
        if (detail::forks() != forks_ || omp_get_active_level() >= omp_get_max_active_levels()) return 1;
        return static_cast<std::size_t>(threads_ == 0 ? omp_get_max_threads() : threads_);
    }

    void run(std::size_t parts, task work) const {
        int const threads = static_cast<int>(std::min(parts, concurrency()));
        if (threads < 2) return serial_executor{}.run(parts, work);
            // A shared loop, and not a part for each thread of the team: OpenMP may give fewer threads than asked for.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
        for (std::size_t part = 0; part < parts; ++part) work(part);
    }

private:
    std::uint32_t forks_ = detail::forks();
    int threads_ = 0;
};

} // namespace GRADSTEP_ISA
} // namespace gradstep
