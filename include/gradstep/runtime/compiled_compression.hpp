#pragma once
#include <cstddef>
#include <span>

#include <gradstep/runtime/compiled_updater.hpp>

// What is compiled of a step of dgc_momentum besides that of other rules: its two halves, on memory. Messages, checks and all that
// follows from the policies are any_parameter's.
namespace gradstep {
namespace runtime {

/// The entries of a message of one tensor, as they lie in memory behind the header of a sparse_message.
struct erased_message {
    std::byte const* body = nullptr;
    std::size_t count = 0;
};

/// Threads of whatever kind: run(of, parts, work, task, bytes) calls work(task, part) for each part, as an executor does. By
/// default the caller's alone.
struct erased_threads {
    void const* of = nullptr;
    std::size_t concurrency = 1;
    void (*run)(void const* of, std::size_t parts, void (*work)(void const* task, std::size_t part), void const* task,
                std::size_t bytes) = nullptr;
};

/// An updater of dgc_momentum: the halves of the step that `prepare` has made, in two calls each. The one that begins it takes all
/// memory, and may throw; nothing is written then. The other throws what threads throw, and nothing else. The memory of tensors,
/// messages and threads stays as it is in between.
class compressing_updater : public compiled_updater {
public:
    /// The first half, of a sparse step: the gradient enters u and v, and `message` gives what is sent, until the next half begins, or,
    /// after `release_message`, as memory of the caller's, which ends by delete[].
    virtual void begin_message(erased_tensor const&, erased_threads const&) = 0;
    virtual erased_message message() = 0;
    virtual void release_message() noexcept = 0;
    /// The second half with that message alone, for a single trainer. It takes no memory.
    virtual void apply_own() = 0;
    /// The second half with the messages of all trainers, which have been checked.
    virtual void begin_apply(erased_tensor const&, std::span<erased_message const>, bool dense,
                             erased_threads const&) = 0;
    virtual void apply() = 0;
    /// Gives the memory back.
    virtual void end_halves() noexcept = 0;
};

} // namespace runtime
} // namespace gradstep
