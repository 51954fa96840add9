#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <dlfcn.h>

#include <gradstep/backends/available_cores.hpp>
#include <gradstep/backends/callback_executor.hpp>
#include <gradstep/backends/detail/forks.hpp>
#include <gradstep/backends/thread_pool.hpp>

#include "support.hpp"

namespace gradstep::c {
namespace {

// The OpenMP runtime of the process, by the functions that g++ calls for `#pragma omp parallel`.
// The runtimes of clang and Intel have them too. OpenMP's threads spin while they wait: a second
// pool beside them would make both slow.
struct openmp_runtime {
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
    int (*max_threads)() = nullptr, (*thread_number)() = nullptr, (*thread_count)() = nullptr,
        (*in_parallel)() = nullptr;

    explicit operator bool() const {
        return parallel != nullptr && max_threads != nullptr && thread_number != nullptr && thread_count != nullptr &&
               in_parallel != nullptr;
    }
    static openmp_runtime of_process() {
        openmp_runtime out;
        auto const find = [](auto& function, char const* name) {
            void* const at = dlsym(RTLD_DEFAULT, name);
            std::memcpy(&function, &at, sizeof at);
        };
        find(out.parallel, "GOMP_parallel");
        find(out.max_threads, "omp_get_max_threads");
        find(out.thread_number, "omp_get_thread_num");
        find(out.thread_count, "omp_get_num_threads");
        find(out.in_parallel, "omp_in_parallel");
        return out;
    }
};

// The number of forks before the library was loaded. If it has grown, this process is a child
// without the OpenMP threads of its parent, whichever library had started them. GNU's runtime would
// wait for them for ever.
std::uint32_t const forks_at_load = gradstep::detail::forks();

class openmp_threads {
public:
    // `most` limits the threads. If it is 0, the limits at each call are OpenMP's own and the cores
    // that the process may use.
    openmp_threads(openmp_runtime const& runtime, std::size_t most)
        : runtime_(runtime), most_(most), cores_(most != 0 ? most : available_cores()) {}

    std::size_t concurrency() const {
        if (gradstep::detail::forks() != forks_at_load || runtime_.in_parallel() != 0) return 1;
        return most_ != 0 ? most_ : std::min(cores_, static_cast<std::size_t>(std::max(1, runtime_.max_threads())));
    }
    void run(std::size_t parts, task work) const {
        std::size_t const team = std::min(parts, concurrency());
        if (team < 2) return serial_executor{}.run(parts, work);
        struct call {
            openmp_runtime const& runtime;
            task work;
            std::size_t parts;
        } shared{runtime_, work, parts};
        runtime_.parallel(
            [](void* of) {
                call const& mine = *static_cast<call*>(of);
                auto const threads = static_cast<std::size_t>(mine.runtime.thread_count());
                for (auto p = static_cast<std::size_t>(mine.runtime.thread_number()); p < mine.parts; p += threads)
                    mine.work(p);
            },
            &shared, static_cast<unsigned>(team), 0);
    }

private:
    openmp_runtime runtime_;
    std::size_t most_, cores_;
};

template <class Executor> class threads_of final : public threads {
public:
    template <class... Arguments> explicit threads_of(Arguments&&... arguments) : executor_(arguments...) {}
    detail::executor_reference reference() override { return detail::executor_reference(executor_); }

private:
    Executor executor_;
};

} // namespace

std::shared_ptr<threads> threads_for(std::int64_t count) {
    if (count == 1) return nullptr;
    if (auto const runtime = openmp_runtime::of_process())
        return std::make_shared<threads_of<openmp_threads>>(runtime, static_cast<std::size_t>(count));
    auto const wanted = count != 0 ? count : static_cast<std::int64_t>(std::min(available_cores(), std::size_t{65535}));
    if (wanted < 2) return nullptr;
    // All handles with the same number of threads share a pool. It ends with the last handle.
    struct pools {
        std::mutex mutex = {};
        std::map<std::int64_t, std::weak_ptr<threads>> by_count = {};
    };
    pools& all = gradstep::detail::of_this_process<pools>();
    std::lock_guard const lock(all.mutex);
    std::weak_ptr<threads>& known = all.by_count[wanted];
    std::shared_ptr<threads> pool = known.lock();
    if (pool == nullptr) known = pool = std::make_shared<threads_of<thread_pool>>(wanted);
    return pool;
}

} // namespace gradstep::c

using namespace gradstep::c;

gradstep_status gradstep_executor_from_callback(uint64_t concurrency, gradstep_run run, void* host,
                                                gradstep_executor** out, gradstep_error* error) {
    return guarded(error, [&] {
        require(reinterpret_cast<void const*>(run), "run");
        require(out, "out");
        auto const call = [run, host](std::size_t parts, gradstep::task work) {
            run(
                host, parts, [](void* task, uint64_t part) { (*static_cast<gradstep::task*>(task))(part); }, &work);
        };
        std::shared_ptr<threads> shared =
            std::make_shared<threads_of<gradstep::callback_executor>>(static_cast<std::size_t>(concurrency), call);
        *out = shells<gradstep_executor>::add(std::make_unique<std::shared_ptr<threads>>(std::move(shared)));
    });
}

void gradstep_executor_release(gradstep_executor* executor) { shells<gradstep_executor>::release(executor); }
