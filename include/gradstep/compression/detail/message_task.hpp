#pragma once
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/model/detail/parameter_task.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The second interface of a parameter's task in a compressed_model: a step in two halves. The
// functions of the first half are called after the task has its gradient, in the order of this
// list. Once `begin_apply` has returned, `run` or `run_whole` of the task is the second half.
class message_task {
public:
    virtual ~message_task() = default;
    // As parameter_task::prepare. Without a gradient the message has no entries, or zeros.
    virtual void begin_message(step_options const&, double clip, bool has_gradient) = 0;
    virtual sparse_message message() = 0;
    virtual void begin_apply(message_list const&) = 0; // if it throws, nothing has changed
    virtual void end_two_phase() = 0; // after the second half, or instead of it: nothing stays prepared
};

// A new task, and the same object by its other interface.
struct made_message_task {
    std::unique_ptr<parameter_task> task;
    message_task* messages;

    template <class Task> explicit made_message_task(std::unique_ptr<Task> made) : task(nullptr), messages(made.get()) {
        task = std::move(made);
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
