#pragma once
#include <gradstep/backends/thread_pool.hpp>
#include <gradstep/config.hpp>
#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/engine/detail/stepper.hpp>
#include <gradstep/memory/buffer.hpp>
#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/detail/definitions.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/step/detail/rate_numbers.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// The index of a policy in the list of its variant, and the policy.
template <class Variant> std::pair<std::size_t, void const*> index_of_policy(Variant const& policy) {
    return {policy.index(), std::visit([](auto const& p) -> void const* { return &p; }, policy)};
}
template <class List> std::string name_in_list(std::size_t index) {
    std::string name;
    std::size_t i = 0;
    List::any([&]<class Policy>() { return i++ == index && (name = type_name<Policy>(), true); });
    return name;
}
std::string name_of_element(scalar storage, element_form form);
// The index of the compiled regularizer for these parts.
std::size_t index_of_regularizer(std::span<runtime::regularizer_part const> parts);

// What errors advise if a combination is compiled for float32 and not for float64.
inline constexpr char const* float32_text = "float32; convert the values and gradients to float32";
// Suffix of an error message: the closest available combination.
[[noreturn, gnu::cold]] void refuse_combination(runtime::combination const& wanted, scalar storage, element_form form,
                                                std::size_t regularizer, std::string const& regularizer_name);

// Policies in the form in which they are looked up. Throws not_compiled_error for nested averages.
runtime::combination combination_of(configuration const& of);
// The thread pool that all updaters with this number of threads share; null for one thread. It ends
// with the last of them.
std::shared_ptr<thread_pool> shared_pool(std::int64_t count);
// The compiled updater for policies and an element. Throws not_compiled_error with the closest
// available one.
std::unique_ptr<runtime::compiled_updater> find_compiled(configuration const& of, scalar storage, element_form form);
// Throws value_error for a call that the state of block8 does not support.
[[noreturn, gnu::cold]] void refuse_blocks(char const* call, char const* expected);
// Throws value_error if integers are to be clipped by a norm.
void require_limitable(norm_limit const& limit, scalar storage);
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
/// A tensor whose element types are known at run time, for any_updater. You own the memory. `slots`
/// are in the order and the types of the updater's slots. It refers to container variables, as
/// any_span does.
struct any_tensor {
    any_span values, gradient;
    std::span<any_span const> slots;
    /// The id of the tensor for random numbers; it must differ between the tensors of a step.
    /// By default it is the number of tensors without an id to which the step was applied before,
    /// in this call and in earlier calls, plus the `id` in the optimizer's text. Give ids if the
    /// order of the tensors can change, or if several threads apply a step.
    std::optional<std::uint64_t> id = {};
    /// Multiplies the learning rate for this tensor; finite and >= 0. A call prepares the step once
    /// for each different value.
    double rate_scale = 1;
    /// Multiplies the rates of l1, l2, elastic_net, decoupled, after_step, cautious_decay and
    /// proximal for this tensor; false or 0 leaves them out. Clipping stays. Finite and >= 0.
    decay_factor decay = 1;
    /// The number of this tensor's step, from 1, if it differs from the clock's count; see
    /// `slice::step`.
    std::optional<std::int64_t> step = {};
    /// The rows and columns, for rules that use them (`muon`, `adafactor`). Other rules ignore it.
    gradstep::shape shape = {};
};

class any_parameter;

/// An updater whose policies are chosen at run time. It contains the policies and a clock, and you
/// own all memory.
///
///     gs::any_updater optimizer{gs::read_optimizer(text), gs::scalar::float32};
///     optimizer.initialize({w, {}, slots});
///     optimizer.next_step();
///     optimizer.apply({w, g, slots});         // any number of tensors, from any thread
///
/// The policies must be compiled into the program (runtime/compile.hpp). The step has the bits of
/// `gs::updater` with these policies. The run-time cost is one indirect call per tensor. State in 8
/// bits (element_form::block8) needs an any_parameter: functions that get an any_tensor throw
/// value_error.
class any_updater final : public detail::stepper {
public:
    /// The type of the tensors that it updates.
    using tensor_type = any_tensor;
    /// The type of a parameter that owns its memory, for gs::model.
    using parameter_type = any_parameter;
    /// The type of initial values, for distributed::server.
    using span_type = any_span;

    /// Makes an updater for elements of `storage` in this form. Throws value_error for a number
    /// that is missing or out of range. Throws not_compiled_error, with the closest available
    /// combination, if the policies are not compiled for these elements.
    any_updater(configuration policies, scalar storage, element_form form = element_form::plain);
    /// The same from the text of an optimizer, with all of its keys. `clip_value` acts before the
    /// regularizers. `clip_norm` and `clip_adaptive` limit the norm of each gradient of `apply`.
    /// `clip_global_norm` limits the norm of all gradients of a call together. Steps whose options
    /// have no seed use `seed`. `id` is added to the position of a tensor without an id.
    /// `on_nonfinite` checks every gradient of `apply`. `apply` without an executor uses `threads`;
    /// copies share them. Also throws value_error for clipping integers by a norm.
    any_updater(optimizer_configuration const& from, scalar storage);
    any_updater(any_updater const& other);
    any_updater(any_updater&&) = default;
    /// Copies policies, clock and prepared step.
    any_updater& operator=(any_updater const& other) { return *this = any_updater(other); }
    any_updater& operator=(any_updater&&) = default;

    /// The policies. Numbers that follow schedules have their values in the last prepared step.
    configuration const& policies() const { return policies_; }
    /// The options in the optimizer's text besides the policies. They are the defaults if it was
    /// constructed from policies.
    optimizer_options const& options() const { return options_; }
    /// The form of elements.
    element_form form() const { return form_; }
    /// The type of values and gradients in memory.
    scalar storage() const { return facts().storage; }
    /// The type of the state in memory. Throws value_error for element_form::block8, whose state is
    /// blocks (any_parameter::blocks).
    scalar state_type() const {
        if (facts().in_blocks) detail::refuse_blocks("state", "any_parameter::blocks");
        return facts().state;
    }
    /// The number of state slots.
    std::size_t slots() const { return facts().slots; }
    /// The name of slot i.
    char const* slot_name(std::size_t i) const { return facts().slot_names[i]; }
    /// The length of slot i for a tensor of n elements, which is 1 if a row-wise rule keeps one
    /// number per tensor. It depends on the shape if the rule is factored (adafactor).
    std::size_t slot_size(std::size_t i, std::size_t n, shape const& of = {}) const {
        return facts().slot_size(i, n, of);
    }
    /// Whether the rule keeps an average of the weights.
    bool keeps_average() const { return facts().keeps_average; }
    /// Describes the updater in one line, for logs.
    GRADSTEP_DEFINE_RUNTIME std::string description() const override;

    /// Visits the policies, for checkpoints; see updater::visit_policies.
    void visit_policies(detail::policy_visitor& to) const { detail::visit_policies(policies_, to); }

    /// Sets the state of a tensor as updater::initialize does. Throws the errors of `apply`.
    void initialize(any_tensor const& tensor) const { compiled_->initialize(checked(tensor, false), steps_of(tensor)); }
    /// Call it after other code has set the weights of a tensor (updater::weights_set). Throws the
    /// errors of `apply`.
    void weights_set(any_tensor const& tensor) const {
        compiled_->weights_set(checked(tensor, false), steps_of(tensor));
    }
    /// Prepares the next step, like updater::next_step, and advances the clock. Throws the same
    /// errors; the clock is then unchanged.
    void next_step(step_options const& options = {}, tensor_options const& own = {}) override {
        next_step(options, own, nullptr);
    }
    /// Applies the step to one tensor. With `on_nonfinite = skip`, a gradient with NaN or infinity
    /// does not change its tensor (zero_gradient still applies), and the call returns the element.
    /// It throws value_error for wrong types, size_error, buffer_error for memory that is missing,
    /// misaligned or overlapping, sequence_error without next_step, and nonfinite_error with
    /// `raise`. Nothing is written then.
    std::optional<nonfinite_element> apply(any_tensor const& tensor) const;
    /// Applies the step to many tensors in one call. If the rule is model-wise (prodigy, dog), the
    /// call is the step of a whole model, and sets the numbers in `clock()`: apply each step once,
    /// from one thread; a second call throws sequence_error. Both functions do that, and a gradient
    /// that on_nonfinite skips then skips all tensors of the call. The call is one pass, split by
    /// memory traffic over the threads of an executor; tensors of row-wise rules and of rules that
    /// use shapes run one after another. Without an executor it uses the threads in the optimizer's
    /// text, else the caller's thread. All tensors are checked before any is written, except for
    /// overlaps between tensors. Throws the same errors, with the number of the tensor. Returns the
    /// first non-finite element. If the optimizer's text clips by a norm, the call first reads all
    /// gradients that it does not skip, and throws value_error if a norm is not finite.
    std::optional<nonfinite_element> apply(std::span<any_tensor const> tensors) const;
    template <executor Executor>
    std::optional<nonfinite_element> apply(std::span<any_tensor const> tensors, Executor& threads) const {
        detail::executor_reference const given(threads);
        return apply_all(tensors, &given, 0);
    }

    /// The clock: the progress of the run.
    gradstep::clock clock() const override { return clock_; }
    /// Sets the clock to the progress of a run. Call next_step afterwards. Throws value_error for a
    /// negative count, and for a clock without the state that the rule keeps in it.
    GRADSTEP_DEFINE_RUNTIME void seek(gradstep::clock at) override;

    /// Sets the number of threads for `apply` without an executor, like `threads` in an optimizer's
    /// text. 1 means the caller's thread, 0 one thread for each core that the process may use.
    /// Updaters with the same number share their threads.
    void use_threads(std::int64_t count) { pool_ = detail::shared_pool(count); }
    /// Uses the threads of another updater.
    void use_threads(any_updater const& of) { pool_ = of.pool_; }
    /// The thread pool of `apply` without an executor, or null for the caller's thread.
    thread_pool* threads() const { return pool_.get(); }
    /// Returns the same updater at the same clock, with a decay that is `factor` times as fast; 0
    /// leaves the decay out. No step is prepared. Throws the errors of the constructor.
    any_updater with_decay(double factor) const;

    /// @cond
    /// The limit of norms that the optimizer's text sets, for code that owns the memory.
    detail::norm_limit const& limit() const { return limit_; }
    /// The compiled updater, for code that owns the memory (any_parameter).
    runtime::compiled_updater const& compiled() const { return *compiled_; }
    runtime::compiled_updater& compiled() { return *compiled_; }
    clock_state before_sums() const override { return step_.state; }
    detail::saved_policies written_policies(bool) const override { return detail::policies_of(*this); }
    /// The same. If `like` has prepared the same step, it is not checked and prepared again.
    void next_step(step_options const& options, tensor_options const& own, any_updater const* like);
    /// The prepared step, for code that owns the memory.
    runtime::erased_step prepared_step() const { return step_; }
    /// Describes the updater's type.
    using stepper::facts;

    /// For model-wise rules: a hash of the rule and its numbers; the first pass over the tensors of
    /// a call, which settles; and the settled state of the clock after the prepared step. For code
    /// that owns the memory.
    GRADSTEP_DEFINE_RUNTIME std::uint64_t hash_of_rule() const override;
    void settle(std::span<runtime::erased_tensor const> tensors, detail::executor_reference const* threads) const;
    void settle(clock_state const& after) override {
        clock_.state = compiled_->finalize(after);
        prepared_ = prepared::settled;
    }
    /// The same first pass over the tensors of several updaters, which are one model: tensor k is a
    /// tensor of by[k], and the sums are added in the order of the tensors. Throws value_error if
    /// another updater than the first has another rule or clock, or a rate that the rule does not
    /// allow.
    static void settle(std::span<any_updater* const> by, std::span<runtime::erased_tensor const> tensors,
                       detail::executor_reference const* threads);
    /// Returns the id of the first of `count` tensors without an id, to which the step is applied.
    std::uint64_t take_ids(std::size_t count) const {
        return first_id() + tensors_.count.fetch_add(count, std::memory_order_relaxed);
    }
    std::uint64_t first_id() const { return static_cast<std::uint64_t>(options_.id); }
    /// Throws sequence_error unless a step is prepared.
    void require_step(char const* call) const;
    /// Throws buffer_error or size_error unless the memory of a tensor exists, is aligned, and does
    /// not overlap. `number` is the tensor's number in a call with several tensors.
    void require(runtime::erased_tensor const& x, bool has_gradient, std::size_t number = detail::only_tensor) const;

    /// What a call does with the step of a model-wise rule.
    enum class model_step {
        /// It settles the step.
        settles,
        /// `settle` did so before the call.
        is_settled,
        /// A gradient of the model is skipped: no tensor takes the step.
        is_skipped
    };
    /// Applies the step to a tensor whose memory is checked (`require`, `require_step`), with the
    /// id that it has, or if `is_counted` the next one, for code that owns the memory. Null
    /// `threads` means the caller's thread. Like `apply` in all else. Only if `applies_directly()`.
    std::optional<nonfinite_element> apply_checked(runtime::erased_tensor const& x,
                                                   detail::executor_reference const* threads,
                                                   bool is_counted = false) const;
    /// Whether a tensor needs no checked_tensors: the rule is not model-wise, and no norm is
    /// limited.
    bool applies_directly() const { return !facts().is_model_wise && limit_.is_none(); }
    /// The same for the tensors of a call, and for every rule.
    class checked_tensors;
    /// The rate, the decay and the number of the step of one tensor; see any_tensor.
    struct own_step {
        double rate_scale = 1;
        decay_factor decay = 1;
        std::optional<std::int64_t> step = {};
    };

    /// Returns the checked values and state of a tensor, without its gradient. Throws the errors of
    /// `initialize`, and buffer_error for const values.
    runtime::erased_tensor checked_memory(any_tensor const& x) const;
    /// Returns the first non-finite element of the gradient if `on_nonfinite = skip` skips the
    /// tensor, otherwise the size. Throws nonfinite_error with `raise`. `number` is the tensor's
    /// number in a call with several tensors.
    std::size_t refused_element(runtime::erased_tensor const& x, std::size_t number = detail::only_tensor) const;
    /// Sets the gradient to zero if the step has zero_gradient, for a skipped tensor.
    void zero_gradient(runtime::erased_tensor const& x) const;
    /// @endcond

private:
    enum class prepared { no, yes, zeroes, settled };

    // The tensors without an id to which a step was applied; a copy of an updater counts on.
    struct tensor_count {
        std::atomic<std::uint64_t> count = 0;
        tensor_count() = default;
        tensor_count(tensor_count const& other) : count(other.count.load(std::memory_order_relaxed)) {}
        tensor_count& operator=(tensor_count const& other) {
            count.store(other.count.load(std::memory_order_relaxed), std::memory_order_relaxed);
            return *this;
        }
    };
    // The form that for_each_block_of needs.
    struct tensor_of_call {
        runtime::erased_tensor memory;
        runtime::compiled_updater* by;
        std::size_t step = 0; // of other_steps, which has `by`
        bool is_counted = false;
        std::size_t size() const { return memory.size; }
        std::size_t bytes_per_element() const { return by->facts().bytes_per_element; }
    };
    // The prepared steps of tensors with a rate_scale, a decay or a step of their own, or with a
    // clipped gradient, each once per call.
    class other_steps {
    public:
        explicit other_steps(any_updater const& of) : of_(of) {}
        // The step with this number; 0 is the updater's.
        runtime::compiled_updater* operator[](std::size_t step) const {
            return step == 0 ? of_.compiled_.get() : steps_[step - 1].by.get();
        }
        // The number of the step of a tensor.
        std::size_t of(own_step const& own, std::size_t number);
        // The number of the same step with a gradient that is clipped.
        std::size_t clipped(std::size_t step, double clip);

    private:
        struct one {
            std::unique_ptr<runtime::compiled_updater> by;
            runtime::erased_step now;
            double clip = 1;
            std::size_t last_clipped = 0;
        };
        any_updater const& of_;
        detail::rate_numbers numbers_;
        std::vector<one> steps_;
        std::size_t last_clipped_ = 0; // of the updater's step
    };
    // The number of steps of a tensor so far.
    std::int64_t steps_of(any_tensor const& x) const { return x.step ? *x.step - 1 : clock_.step; }
    bool decays() const;
    configuration move_to(gradstep::clock now);
    static configuration policies_with(configuration of, double decay);

    detail::executor_reference own_threads() const;
    std::optional<nonfinite_element> apply_all(std::span<any_tensor const> tensors,
                                               detail::executor_reference const* threads, std::size_t number) const;
    // Finds the first non-finite element of each gradient, else its size. Throws nonfinite_error
    // with `raise`.
    template <class Pointers>
    void find_nonfinite(Pointers const& all, detail::executor_reference const* threads, std::size_t number,
                        std::atomic<std::size_t>* found) const;
    template <class Pointers> void run_all(Pointers const& all, detail::executor_reference const* threads) const;
    // The first pass of a model-wise rule: adds its sums over the tensors of a call, and settles.
    void settle(std::span<tensor_of_call const* const> all, detail::executor_reference const* threads) const;

    [[noreturn, gnu::cold]] void refuse(std::array<detail::extent, 2 + runtime::most_slots> const& all,
                                        std::size_t number) const;
    runtime::erased_tensor checked(any_tensor const& given, bool has_gradient,
                                   std::size_t number = detail::only_tensor) const;

    // What every step reads or writes comes first, on a few lines of the cache.
    std::unique_ptr<runtime::compiled_updater> compiled_;
    // Mutable, like `prepared_`: a model-wise rule settles its numbers when a step is applied.
    mutable gradstep::clock clock_ = {};
    runtime::erased_step step_ = {};
    step_options step_options_ = {}; // of the prepared step
    mutable prepared prepared_ = prepared::no;
    element_form form_;
    mutable tensor_count tensors_ = {};
    std::shared_ptr<configuration const> whole_; // the policies before with_decay; null if no number follows a schedule
    optimizer_options options_ = {};
    configuration policies_;
    detail::norm_limit limit_ = {};
    std::shared_ptr<thread_pool> pool_; // for options_.threads; copies share it; null: the caller's thread
    double decay_ = 1;                  // of with_decay, for numbers that follow schedules
};

/// The tensors of a call of any_updater, whose memory is checked (`any_updater::require`,
/// `require_step`). All memory of the call is allocated before `apply`, so a caller can check
/// more before it.
class any_updater::checked_tensors {
public:
    /// Room for `count` tensors. Errors number them from `number`, or not if it is only_tensor.
    checked_tensors(any_updater const& of, std::size_t count, std::size_t number = 0);
    /// Adds a tensor, with the id that it has, or if `is_counted` the next one of the step: a call
    /// that fails counts none. Throws value_error for numbers that are out of range, and the errors
    /// of its shape.
    void add(runtime::erased_tensor const& x, own_step const& own = {}, bool is_counted = false);
    /// The memory of tensor k.
    runtime::erased_tensor const& operator[](std::size_t k) const { return all_[k].memory; }
    /// The number of tensors.
    std::size_t size() const { return all_.size(); }
    /// Applies the step once to all of them, like any_updater::apply. Null `threads` means the
    /// caller's thread.
    std::optional<nonfinite_element> apply(detail::executor_reference const* threads,
                                           model_step model = model_step::settles);

private:
    std::size_t number_of(tensor_of_call const* one) const { return static_cast<std::size_t>(one - all_.data()); }
    // Clips the gradients of `taken_` by their norms. Throws value_error if a norm is not finite.
    void clip(detail::executor_reference const* threads);

    any_updater const* of_;
    std::size_t number_;
    other_steps steps_;
    std::vector<tensor_of_call> all_;
    std::vector<tensor_of_call const*> taken_;
    std::vector<std::atomic<std::size_t>> found_; // see find_nonfinite
};
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// The updater of the steps of an optimizer's text (`policies_of_step`). If the policies are
// compiled and the clip is not, the error names the key "clip".
any_updater updater_of_step(optimizer_configuration const& from, scalar storage);
// Throws value_error unless updater b can continue after a: they differ only in regularizers and in
// numbers, except those that must be the same in all steps.
void require_same_types(any_updater const& a, any_updater const& b);
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/any_updater.ipp>
#endif
