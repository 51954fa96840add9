#pragma once
#include <gradstep/engine/detail/dense_memory.hpp>
#include <gradstep/engine/detail/step_task.hpp>
#include <gradstep/engine/detail/stepper.hpp>
#include <gradstep/engine/detail/weight_ascent.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A gradient of the type of a parameter's values, in the memory of its backend.
struct given_gradient {
    void const* data = nullptr;
    std::size_t size = 0;
    bool is_writable = false;
};

// A dense parameter with an updater: values, state, clock and steps. any_parameter is a
// face of it, and a model drives it by the functions of step_task. It checks
// everything before it writes: if a call throws, nothing has changed. The memory is its own, or the
// application's (`refer_to`).
class dense_parameter : public step_task {
public:
    // The policies with their clock, of one type.
    virtual stepper& by() noexcept = 0;
    stepper const& by() const noexcept { return const_cast<dense_parameter*>(this)->by(); }
    kernels& code() noexcept { return by().code(); }
    kernels const& code() const noexcept { return by().code(); }
    updater_facts const& facts() const noexcept { return code().facts(); }

    std::size_t size() const final { return memory_.size(); }
    std::size_t bytes_per_element() const final { return facts().bytes_per_element; }
    gradstep::clock clock() const { return by().clock(); }
    parameter_options const& options() const { return options_; }

    // The calls of one parameter alone.
    update_result update(given_gradient const& gradient, step_options const& options);
    ascent_result ascend(given_gradient const& gradient, sam_options const& how);
    update_result descend(given_gradient const& gradient, step_options const& options);
    // Restores the trained values, after `put_average` or an ascent.
    void restore();
    bool is_ascended() const { return is_ascended_; }
    bool average_is_applied() const { return average_.is_applied(); }

    // The parts of a step. `take_gradient` checks the gradient and refers to it. `advance` prepares
    // the step and advances the clock; if it throws, the clock is as before.
    void take_gradient(given_gradient const& gradient, step_options const& options, char const* call);
    virtual void advance(step_options const& options, tensor_options const& own) = 0;
    void prepare(step_options const& options, double clip) final { advance(scaled(options, clip), {}); }
    // The options with a gradient that is clipped.
    step_options scaled(step_options options, double clip) const {
        if (!facts().is_integer) options.gradient_scale *= clip;
        return options;
    }
    void withdraw() override { by().seek(before_); }

    std::size_t buffers() const final { return 2 + facts().slots; }
    GRADSTEP_DEFINE void add_memory(apart_check& to, bool zeroes) final;
    GRADSTEP_DEFINE char const* buffer_name(std::size_t i) const final;
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const final {
        return code().find_nonfinite(gradient_.data, first, last);
    }
    double block_sum(std::size_t block, double scale) const final {
        return code().block_sum(gradient_.data, gradient_.size, block, scale);
    }
    double weight_block_sum(std::size_t block, double scale) const final {
        return code().block_sum(reads_kept_ ? ascent_.kept() : memory_.values(), size(), block, scale);
    }
    double sum_of_squares(double scale) const final {
        return code().sum_of_squares(gradient_.data, gradient_.size, scale);
    }
    bool reads_in_chunks() const final { return facts().reads_chunks; }
    GRADSTEP_DEFINE void zero_gradient() const final;
    void run(std::size_t first, std::size_t last) const noexcept final {
        code().run(tensor(gradient_.data), first, last);
    }
    std::uint64_t hash_of_rule() const final { return by().hash_of_rule(); }
    gradstep::clock clock_before() const final { return before_; }
    clock_state before_sums() const final { return by().before_sums(); }
    model_sums sums_of_block(std::size_t block) const noexcept final {
        return code().sums_of_block(tensor(gradient_.data), block);
    }
    clock_state settled(model_sums const& sums) const final { return code().settled(sums); }
    void settle(clock_state const& after) final { by().settle(after); }

    // The parts of an ascent, in this order. `begin_ascent` makes memory, and throws before
    // anything changes; the others do their work on elements [first, last), on all of them unless
    // reads_in_chunks(). ascent_squares is the sum of the squares of what measure_ascent has
    // written, of ASAM. `read_kept_weights`: the weights before the step are the kept ones.
    void begin_ascent();
    void measure_ascent(sam_options const& how, std::size_t first, std::size_t last) {
        ascent_.measure(code(), tensor(gradient_.data), how, first, last);
    }
    double ascent_squares(double scale) const { return ascent_.squares(code(), scale); }
    void keep_weights(std::size_t first, std::size_t last) { ascent_.keep(code(), tensor(nullptr), first, last); }
    void move_weights(sam_options const& how, double scale, std::size_t first, std::size_t last) {
        ascent_.move(code(), tensor(gradient_.data), how, scale, first, last);
    }
    void restore_weights(std::size_t first, std::size_t last) { ascent_.restore(code(), tensor(nullptr), first, last); }
    void require_kept() const { ascent_.require_size(size()); }
    void read_kept_weights(bool is) { reads_kept_ = is; }
    // Whether the model has moved the values, and keeps those before.
    void set_ascent_lock(bool is) { is_ascended_ = is_locked_for_ascent_ = is; }

    // Adapts the state to values that other code has set.
    void weights_set();
    // Continues from a saved state. The state of the first `loaded` elements belongs to it;
    // averages of the others stay as they are.
    void resume(gradstep::clock at, std::size_t loaded);
    // Describes trained values, state, policies and clock to a visitor.
    virtual void describe_state(state_visitor& to, bool decay) const;
    virtual void describe_shape(state_visitor& to) const = 0;

    // Replaces the values by their average; if it throws, they are unchanged.
    virtual void put_average();
    // The same by memory with averages.
    void put_values(memory_block averages);
    // Throws sequence_error unless the trained values are in place and no step is pending.
    virtual void require_trained(char const* call) const;

protected:
    dense_parameter(bool is_model_wise, parameter_options const& options)
        : step_task(is_model_wise), options_(options) {}
    dense_parameter(dense_parameter const&) = default;
    dense_parameter(dense_parameter&&) = default;
    dense_parameter& operator=(dense_parameter const&) = default;
    dense_parameter& operator=(dense_parameter&&) = default;

    // The shape of the values for the rule, if it is known.
    virtual gradstep::shape matrix() const = 0;
    // The values and state, with a gradient.
    erased_tensor tensor(void const* gradient) const {
        erased_tensor out = memory_.tensor();
        out.gradient = gradient;
        out.id = options_.id;
        if (facts().uses_shape) out.shape = matrix();
        return out;
    }
    // The same while an average is applied.
    erased_tensor trained_tensor() const {
        erased_tensor out = tensor(nullptr);
        if (average_.is_applied()) out.weight = average_.trained();
        return out;
    }
    void read_average(bool of_state, void* out) const { code().read_average(trained_tensor(), clock(), of_state, out); }
    // Throws unless the gradient has `count` elements, exists, and is apart from the parameter.
    void require_gradient(given_gradient const& gradient, std::size_t count, step_options const& options) const;
    // Throws buffer_error for memory that overlaps the values or the state.
    void require_apart(extent const& given) const;
    // The element for which `on_nonfinite` leaves the step out. Throws nonfinite_error under
    // `raise`.
    std::optional<std::size_t> refused_nonfinite() const;

    // The parts of a step of this parameter alone, on its own threads: `begin_alone` prepares,
    // `run_alone` runs; and `ascend_alone` measures or moves all elements of an ascent.
    virtual void begin_alone(step_options const& options) = 0;
    virtual void run_alone() = 0;
    virtual void ascend_alone(sam_options const& how, double scale, bool measures) = 0;

    parameter_options options_;
    std::uint64_t id_ = 0; // for random numbers
    dense_memory memory_;
    weight_ascent ascent_;
    replaced_values average_;
    bool is_ascended_ = false, is_locked_for_ascent_ = false, reads_kept_ = false; // the model's ascent; kept values
    given_gradient gradient_; // of this update, like the following member
    gradstep::clock before_;

private:
    update_result take_step(step_options const& options, bool goes_back);
    void go_back();
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/dense_parameter.ipp>
#endif
