#pragma once
#include <gradstep/engine/detail/compression_kernels.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
class launch_batch; // engine/detail/launch_batch.hpp

// Policies with a clock, which prepare steps for kernels. An owner of memory needs no more of an
// updater: any_updater implements it over policies that are chosen at run time, and typed_stepper
// (engine/detail/kernels_of.hpp) over an updater of a type.
class stepper {
public:
    virtual ~stepper() = default;
    // The code that runs the prepared step.
    kernels& code() noexcept { return *code_; }
    kernels const& code() const noexcept { return *code_; }
    updater_facts const& facts() const noexcept { return *facts_; } // without a look at the code

    virtual gradstep::clock clock() const = 0;
    virtual void seek(gradstep::clock at) = 0;
    // Prepares the next step, and advances the clock. If it throws, nothing has changed.
    virtual void next_step(step_options const& options, tensor_options const& own) = 0;
    // For model-wise rules: the state of the clock before the sums of the prepared step, which can
    // have the rate; `settle`, which sets it after them; and a hash of the rule and its numbers.
    virtual clock_state before_sums() const = 0;
    virtual void settle(clock_state const& after) = 0;
    virtual std::uint64_t hash_of_rule() const = 0;

    // The code of the two halves of a step; null if the rule has none.
    virtual compression_kernels* compression() noexcept { return nullptr; }
    // Adds the prepared step of a tensor to launches of several, if the backend can gather them.
    // Returns whether it did.
    virtual bool gather(launch_batch&, erased_tensor const&) { return false; }

    virtual std::string description() const = 0;
    virtual saved_policies written_policies(bool decay) const = 0;

protected:
    stepper() = default;
    void use(kernels& code) { code_ = &code, facts_ = &code.facts(); }
    stepper(stepper const&) = default;
    stepper(stepper&&) = default;
    stepper& operator=(stepper const&) = default;
    stepper& operator=(stepper&&) = default;

private:
    kernels* code_ = nullptr;
    updater_facts const* facts_ = nullptr;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
