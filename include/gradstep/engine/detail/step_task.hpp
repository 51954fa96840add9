#pragma once
#include <gradstep/engine/detail/launch_batch.hpp>
#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/memory/detail/apart.hpp>
#include <gradstep/step/detail/model_sums.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
class dense_parameter;

// A parameter that has its gradient, in a step of several parameters (step_driver): one of a model,
// or an any_parameter. A driver calls its functions in the order of this list. Chunks are
// elements [first, last); their bounds are multiples of block_size, except at the end.
class step_task {
public:
    virtual ~step_task() = default;

    // The parameter, for the parts of an ascent.
    virtual dense_parameter& dense() = 0;

    // The `buffers()` that the step reads and writes, in this order.
    virtual void add_memory(apart_check& to, bool zeroes) = 0;
    virtual std::size_t buffers() const = 0;
    virtual char const* buffer_name(std::size_t i) const = 0;

    // These read the gradient. find_nonfinite returns the first element that is not finite, else
    // `last`. block_sum returns the sum of the squares of a block's elements times `scale`;
    // sum_of_squares returns the sum for the whole gradient, if it is not read in chunks. own_limit
    // is the limit of this gradient's norm; the limit of all gradients' norm is separate.
    virtual std::size_t find_nonfinite(std::size_t first, std::size_t last) const = 0;
    virtual double block_sum(std::size_t block, double scale) const = 0;
    virtual double sum_of_squares(double scale) const = 0;
    virtual norm_limit own_limit() const { return {}; }
    // The same sum for the weights before the step, if own_limit() is adaptive.
    virtual double weight_block_sum(std::size_t, double) const { return 0; }
    virtual bool reads_in_chunks() const = 0;

    virtual void zero_gradient() const = 0;                     // for a step that is skipped
    virtual void prepare(step_options const&, double clip) = 0; // advances the clock, unless it throws
    virtual void withdraw() = 0;                                // undoes `prepare`
    virtual void run(std::size_t first, std::size_t last) const noexcept = 0;
    virtual void run_whole(launch_batch&) = 0; // if it has no chunks: at once, or with the batch

    // For model-wise rules (is_model_wise), after `prepare`, and before `run`: `hash_of_rule`,
    // which is the same for tensors that are settled together; the clock before the step, and its
    // state before the sums, which can have the rate; what a block adds to the sums; the clock's
    // state after the step, from the sums of all tensors; and `settle`, which sets it, also for
    // `run`. `label` names task i in errors.
    virtual std::uint64_t hash_of_rule() const { return 0; }
    virtual gradstep::clock clock_before() const { return {}; }
    virtual clock_state before_sums() const { return {}; }
    virtual model_sums sums_of_block(std::size_t) const noexcept { return {}; }
    virtual clock_state settled(model_sums const&) const { return {}; }
    virtual void settle(clock_state const&) {}
    virtual std::string label(std::size_t i) const { return "parameter " + text(i); }
    bool is_model_wise() const { return is_model_wise_; }

    virtual bool runs_in_chunks() const = 0;
    virtual std::size_t size() const = 0;
    virtual std::size_t bytes_per_element() const = 0;

protected:
    step_task() = default;
    explicit step_task(bool is_model_wise) : is_model_wise_(is_model_wise) {}
    void set_model_wise(bool is) { is_model_wise_ = is; }
    step_task(step_task const&) = default;
    step_task(step_task&&) = default;
    step_task& operator=(step_task const&) = default;
    step_task& operator=(step_task&&) = default;

private:
    bool is_model_wise_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
