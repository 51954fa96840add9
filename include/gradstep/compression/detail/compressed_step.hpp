#pragma once
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/engine/detail/dense_parameter.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The two halves of a step of a parameter that compresses gradients, with an updater of a type or
// one chosen at run time. compressed_parameter, any_parameter and message_task use it. What lasts
// between the halves is in the parameter (`awaited_step`) and its kernels, so a copy of the
// parameter can apply the messages, too.
class compressed_step {
public:
    explicit compressed_step(dense_parameter& of) : of_(of) {}

    // The calls of one parameter alone, which has its gradient. Without `has_gradient`, the message
    // has no entries, or zeros.
    sparse_message compress(step_options const& options, bool has_gradient);
    void apply(message_list const& messages);

    // Their parts. `begin_*` checks everything and allocates all memory; if it throws, nothing has
    // changed. `message` and `run` throw only what threads and devices throw. `end` follows the
    // second half, or replaces the calls that are left.
    void begin_message(step_options const& options, tensor_options const& own, bool has_gradient);
    sparse_message message();
    void begin_apply(message_list const& messages);
    bool applies() const { return applies_; } // whether `run` replaces the ordinary step
    void run() { of_.compression()->apply(); }
    void end();

private:
    scalar type() const { return of_.facts().storage; }

    dense_parameter& of_;
    std::int64_t number_ = 0; // of the step whose message is next
    bool has_gradient_ = false, applies_ = false;
    sparse_message empty_; // without a gradient
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/detail/compressed_step.ipp>
#endif
