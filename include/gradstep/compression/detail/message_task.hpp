#pragma once
#include <gradstep/compression/detail/compressed_step.hpp>
#include <gradstep/compression/detail/dense_messages.hpp>
#include <gradstep/model/detail/parameter_task.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A parameter of a compressed_model. If its rule does not compress, it sends its whole gradient,
// and steps with the mean of all gradients, rounded to the type of the values. A step in two halves
// calls the functions in the order of this list, after the task has its gradient. Once
// `begin_apply` has returned, `run` or `run_whole` of the task is the second half.
class message_task final : public parameter_task {
public:
    // `dense` is null if the rule compresses, or no message can contain the type of the values.
    message_task(std::string of, std::unique_ptr<dense_parameter> owned, tensor_options const& options,
                 dense_messages const* dense)
        : parameter_task(std::move(of), std::move(owned), options), step_(parameter()), dense_(dense) {}

    // As `prepare`. Without a gradient the message has no entries, or zeros.
    void begin_message(step_options const& given, double clip, bool has_gradient);
    sparse_message message();
    void begin_apply(message_list const& messages); // if it throws, nothing has changed
    void end_two_phase();                           // after the second half, or instead of the calls that are left

    GRADSTEP_DEFINE void withdraw() override;
    bool runs_in_chunks() const override { return !step_.applies() && parameter_task::runs_in_chunks(); }
    GRADSTEP_DEFINE void run_whole(launch_batch& waiting) override;

private:
    compressed_step step_; // if the rule compresses
    dense_messages const* dense_;
    double scale_ = 1; // of a dense message, like the following members
    bool fills_ = false, zeroes_ = false;
    sparse_message message_;
    memory_block mean_; // kept for the next step: allocating it again would take longer than the mean
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/detail/message_task.ipp>
#endif
