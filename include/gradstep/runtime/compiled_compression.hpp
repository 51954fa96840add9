#pragma once
#include <gradstep/runtime/compiled_updater.hpp>

// The compiled part of a dgc_momentum step: its two halves, on memory. any_parameter handles
// messages, checks, and everything that follows from the policies.
namespace gradstep::runtime {
/// The entries of a message for one tensor, as they follow the header of a sparse_message in
/// memory.
struct erased_message {
    std::byte const* body = nullptr;
    std::size_t count = 0;
};

/// Threads of any kind: run(of, parts, work, task, bytes) calls work(task, part) for each part,
/// like an executor. By default the caller's thread only.
struct erased_threads {
    void const* of = nullptr;
    std::size_t concurrency = 1;
    void (*run)(void const* of, std::size_t parts, void (*work)(void const* task, std::size_t part), void const* task,
                std::size_t bytes) = nullptr;
};

/// An updater of dgc_momentum. Each half of the prepared step has two calls. The first call
/// allocates all memory and can throw; nothing is written then. The second call throws only what
/// threads throw. The memory of tensors, messages and threads must not change in between.
class compressing_updater : public compiled_updater {
public:
    using compiled_updater::compiled_updater;
    /// Runs the first half of a sparse step: adds the gradient to u and v. `message` returns the
    /// message to send. It is valid until the next half begins. After `release_message`, the caller
    /// owns it and frees it by delete[].
    virtual void begin_message(erased_tensor const&, erased_threads const&) = 0;
    virtual erased_message message() = 0;
    virtual void release_message() noexcept = 0;
    /// Runs the second half with this message only, for a single trainer. It allocates no memory.
    virtual void apply_own() = 0;
    /// Runs the second half with the messages of all trainers, which have been validated.
    virtual void begin_apply(erased_tensor const&, std::span<erased_message const>, bool dense,
                             erased_threads const&) = 0;
    virtual void apply() = 0;
    /// Frees the memory.
    virtual void end_two_phase() noexcept = 0;
};
} // namespace gradstep::runtime
