#pragma once
#include <gradstep/engine/detail/compression_kernels.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

namespace gradstep::runtime {
/// Threads of any kind: run(of, parts, work, task, bytes) calls work(task, part) for each part,
/// like an executor. By default the caller's thread only.
struct erased_threads {
    void const* of = nullptr;
    std::size_t concurrency = 1;
    void (*run)(void const* of, std::size_t parts, void (*work)(void const* task, std::size_t part), void const* task,
                std::size_t bytes) = nullptr;
};

/// An updater of dgc_momentum. Its step has two halves, for any_parameter.
class compressing_updater : public compiled_updater, public detail::compression_kernels {
public:
    using compiled_updater::compiled_updater;
    /// Uses these threads from the next call on, until the next step is prepared.
    virtual void use_threads(erased_threads const&) noexcept = 0;
};
} // namespace gradstep::runtime
