#pragma once
#include <gradstep/engine/detail/dense_memory.hpp>
#include <gradstep/engine/detail/step_task.hpp>
#include <gradstep/engine/detail/stepper.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A gradient of the type of a parameter's values, in the memory of its backend.
struct given_gradient {
    void const* data = nullptr;
    std::size_t size = 0;
    bool is_writable = false;
};

// The memory of a parameter after a change of its rows, which `commit` puts in place.
class pending_rows {
public:
    virtual ~pending_rows() = default;
    virtual void commit() noexcept = 0;
};

// A dense parameter with an updater: values, state, clock and steps. `parameter<Updater>` and
// any_parameter are faces of it, and a model drives it by the functions of step_task. It checks
// everything before it writes: if a call throws, nothing has changed. The memory is its own, or the
// application's (`refer_to`).
class dense_parameter : public step_task {
public:
    // The policies with their clock, of one type.
    virtual stepper& by() noexcept = 0;
    stepper const& by() const noexcept { return const_cast<dense_parameter*>(this)->by(); }
    kernels& code() noexcept { return by().code(); }
    kernels const& code() const noexcept { return by().code(); }
    updater_facts const& facts() const noexcept { return by().facts(); }
    // The code of the two halves of a step, for a call; null if the rule has none.
    GRADSTEP_DEFINE virtual compression_kernels* compression();

    std::size_t size() const final { return memory_.size(); }
    std::size_t bytes_per_element() const final { return facts().bytes_per_element; }
    gradstep::clock clock() const { return by().clock(); }
    parameter_options const& options() const { return options_; }
    // The seed of its random numbers, for steps whose options have none.
    virtual std::uint64_t own_seed() const { return 0; }
    // The bytes of the values and of a slot, if they are in memory of the host.
    std::span<std::byte const> values_on_host() const {
        return {static_cast<std::byte const*>(memory_.values()), memory_.value_bytes()};
    }
    std::span<std::byte const> state_on_host(std::size_t slot) const {
        return {static_cast<std::byte const*>(memory_.state(slot)), memory_.state_bytes(slot)};
    }

    // The calls of one parameter alone.
    update_result update(given_gradient const& gradient, step_options const& options);
    ascent_result ascend(given_gradient const& gradient, sam_options const& how);
    update_result descend(given_gradient const& gradient, step_options const& options);
    // Restores the trained values, after `put_average` or an ascent. `call` is for errors.
    void restore(char const* call = "restore");
    // Throws size_error if the application has resized its memory while an average is applied.
    void require_trained_size(char const* call) const;
    bool is_ascended() const { return is_ascended_; }
    bool average_is_applied() const { return average_.is_applied(); }

    // The parts of a step. `take_gradient` checks the gradient and refers to it. `advance` prepares
    // the step and advances the clock; if it throws, the clock is as before.
    void take_gradient(given_gradient const& gradient, step_options const& options, char const* call);
    GRADSTEP_DEFINE virtual void advance(step_options const& options, tensor_options const& own);
    // The same without what depends on the tensor.
    GRADSTEP_DEFINE virtual void next_step(step_options const& options, tensor_options const& own);
    // The element for which `on_nonfinite` leaves the step out. Throws nonfinite_error under
    // `raise`.
    std::optional<std::size_t> refused_nonfinite() const;
    // The number of the step whose messages are awaited (compressed_step), or 0. No other step can
    // begin until they are applied.
    std::int64_t awaited_step() const { return awaited_step_; }
    void await_step(std::int64_t number) { awaited_step_ = number; }
    // The parameter with its gradient; and what `advance` allocates for it, again for another
    // gradient.
    erased_tensor step_tensor() const { return tensor(gradient_.data); }
    bool has_checks() const { return code().checks_steps() || !options_.bfloat16_copy.empty(); }
    void require_step() { code().require_step(step_tensor(), only_tensor); }
    given_gradient const& gradient() const { return gradient_; }
    void prepare(step_options const& options, double clip) final {
        if (clip == 1) advance(options, own_);
        else advance(scaled(options, clip), own_);
    }
    // The options with a gradient that is clipped.
    step_options scaled(step_options options, double clip) const {
        if (!facts().is_integer) options.gradient_scale *= clip;
        return options;
    }
    void withdraw() override { by().seek(before_); }

    dense_parameter& dense() final { return *this; }
    std::size_t buffers() const final { return 2 + facts().slots + !options_.bfloat16_copy.empty(); }
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
    GRADSTEP_DEFINE void run_whole(launch_batch& waiting) override;
    bool runs_in_chunks() const override { return code().runs_in_chunks(size()); }
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
    // Sets the shape, as gs::parameter::set_shape.
    void set_shape(gradstep::shape const& of);
    // Continues from a saved state. The state of the first `loaded` elements belongs to it;
    // averages of the others stay as they are.
    void resume(gradstep::clock at, std::size_t loaded);
    // Continues one parameter, and takes the id of the state if it has one.
    void resume(gradstep::clock at, std::optional<std::uint64_t> id, std::size_t loaded = SIZE_MAX) {
        resume(at, loaded);
        if (id) options_.id = id_ = *id;
    }
    // Describes trained values, state, policies and clock to a visitor.
    GRADSTEP_DEFINE virtual void describe_state(state_visitor& to, bool decay) const;
    virtual void describe_shape(state_visitor& to) const { visit_shape(to, options_.shape); }

    // Replaces the values by their average; if it throws, they are unchanged.
    GRADSTEP_DEFINE virtual void put_average();
    // The same by memory with averages.
    void put_values(memory_block averages);
    // Copies the averages to `out`, a std::vector of elements of this type, if it is the type of
    // the state. Returns whether it is.
    virtual bool give_average(type_id element, void* out) = 0;

    // The rows now, for the function `call`; and the memory after a change, with values of new rows
    // on the host, or null. Both throw, and change nothing.
    GRADSTEP_DEFINE virtual detail::row_lengths row_lengths(char const* call) const;
    GRADSTEP_DEFINE virtual std::unique_ptr<pending_rows> changed_rows(row_order const& order, void const* added,
                                                                       std::size_t count);

    // The type of the values; and the type and the address of the object that models return.
    virtual type_id storage_type() const = 0;
    virtual type_id face_type() const = 0;
    virtual void* face() = 0;
    // Whether the policies were chosen at run time. Some errors have other words then.
    virtual bool is_of_run_time() const { return false; }
    // It becomes the parameter of a model with this name.
    GRADSTEP_DEFINE virtual void join(std::string const& name, tensor_options const& options);
    // Sets the shape, or none, that a rule uses.
    virtual void use_shape(gradstep::shape const& of) { set_shape(of); }
    // If the memory is the application's: looks up where containers have it now, and throws unless
    // its buffers fit each other; and the gradient that is there, if there is one.
    virtual void follow([[maybe_unused]] bool checks = true) {}
    virtual std::optional<given_gradient> own_gradient() { return {}; }
    // Throws sequence_error unless the trained values are in place and no step is pending.
    GRADSTEP_DEFINE virtual void require_trained(char const* call) const;

protected:
    dense_parameter(bool is_model_wise, parameter_options const& options)
        : step_task(is_model_wise), options_(options) {}
    dense_parameter(dense_parameter const&) = default;
    dense_parameter(dense_parameter&&) = default;
    dense_parameter& operator=(dense_parameter const&) = default;
    dense_parameter& operator=(dense_parameter&&) = default;

    // Makes memory with n values, in memory of the host or of the backend, and the state at step 0.
    void begin(void const* values, std::size_t n, bool on_host, gradstep::shape const& of);
    // Sets all values to others, which exist, and lets the state follow.
    void put(void const* values, bool on_host);
    // Copies the average, in the type of the state, to the host.
    void average_on_host(void* out) const;
    // Throws sequence_error unless this parameter alone has ascended.
    void require_ascended() const;
    void go_back(); // to the values before the ascent

    // The shape of the values for the rule, if it is known.
    virtual gradstep::shape matrix() const { return options_.shape; }
    // The values and state, with a gradient.
    erased_tensor tensor(void const* gradient) const {
        erased_tensor out = memory_.tensor(facts().slots);
        out.gradient = gradient;
        out.id = id_;
        out.bfloat16_copy = options_.bfloat16_copy;
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
    // Throws value_error if there is a copy in bfloat16, which does not follow values that move.
    void require_no_copy(row_order const& order) const;
    // Throws unless the gradient has `count` elements, exists, and is apart from the parameter.
    void require_gradient(given_gradient const& gradient, std::size_t count, step_options const& options) const;
    // Throws buffer_error for memory that overlaps the values, the state or the copy in bfloat16.
    void require_apart(extent const& given) const;

    // The parts of a step of this parameter alone, on its own threads: `begin_alone` prepares,
    // `run_alone` runs. And f(first, last) for parts of all elements, for an ascent.
    GRADSTEP_DEFINE virtual void begin_alone(step_options const& options);
    GRADSTEP_DEFINE virtual void run_alone();
    GRADSTEP_DEFINE virtual void ascend_alone(sam_options const& how, double scale, bool measures);

    parameter_options options_;
    std::uint64_t id_ = 0;    // for random numbers
    tensor_options own_ = {}; // in a model
    dense_memory memory_;
    weight_ascent ascent_;
    replaced_values average_;
    bool is_ascended_ = false, is_locked_for_ascent_ = false, reads_kept_ = false; // the model's ascent; kept values
    given_gradient gradient_; // of this update, like the following member
    gradstep::clock before_;
    std::int64_t awaited_step_ = 0;

private:
    update_result take_step(step_options const& options, bool goes_back);
    void write_values(void const* values, bool on_host);
    [[noreturn]] void refuse_gradient(extent const& given, std::size_t count, bool is_const) const;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/dense_parameter.ipp>
#endif
