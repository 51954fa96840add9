#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/engine/detail/launch_batch.hpp>
#include <gradstep/memory/applied_average.hpp>
#include <gradstep/memory/detail/apart.hpp>
#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/model/detail/norm_limit.hpp>
#include <gradstep/model/detail/step_task.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/detail/any_buffer.hpp>
#include <gradstep/runtime/detail/any_compression.hpp>
#include <gradstep/runtime/detail/stamped_rows.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/saved/load_options.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/changing_rows.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
class any_owning_task;
struct parameter_scratch; // runtime/detail/parameter_scratch.hpp
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
/// A parameter whose policies are chosen at run time, the counterpart of `gs::parameter`. It owns
/// values, state slots and clock, in host memory.
///
///     gs::any_parameter weights{gs::read_optimizer(text), initial};
///     weights.update(gradient);
///
/// A parameter can have rows, so that a step can update some of them:
/// `any_parameter{optimizer, initial, {}, rows, width}`. A row-wise rule (lamb) then treats every
/// row as a tensor; without rows, it treats the whole parameter as one. The catch-up policy of the
/// optimizer defines how rows account for missed steps. With `touch_only`, they ignore them. With
/// `exact` and `replay`, pending steps are applied as in gs::table: when a step contains the row,
/// and when it is read. `flush` and a step of all elements apply the pending steps of all rows.
///
/// The rows can change while it trains (gs::changing_rows), after a flush. The constructor defines
/// the rows, or if there is one, the shape does. One row without a shape is a vector, whose rows
/// are its elements: begin with 0 rows and append, if you need a table of one row. The number that
/// a row-wise rule keeps for each row moves with its row.
class any_parameter : private detail::step_task, public changing_rows<any_parameter> {
public:
    /// The type of object that a gs::model uses to own the parameter.
    using task_type = detail::any_owning_task;
    /// The rows with pending steps, for checkpoints.
    using rows_type = detail::stamped_rows;

    /// Copies the optimizer and the values of `initial`, and sets the state to step 0. The clock
    /// starts at 0. The values have the optimizer's type, and are zero if `initial` has no memory.
    /// Without `rows` there is one row with all elements. Throws value_error, size_error or
    /// buffer_error; a `bfloat16_copy` is a value_error, because no step writes it here. Throws
    /// not_compiled_error if the catch-up policy is not compiled for the rule.
    any_parameter(any_updater const& optimizer, any_span initial, parameter_options options = {}, std::size_t rows = 1,
                  std::optional<std::size_t> width = {});
    /// The same from the text of an optimizer, for values of the type of `initial`. Updates use the
    /// `threads` of the text, until `use_threads` sets an executor. A gs::model uses its own
    /// threads.
    any_parameter(optimizer_configuration const& from, any_span initial, std::size_t rows = 1,
                  std::optional<std::size_t> width = {});

    /// Uses values and state in your memory without changing them, and continues from the
    /// optimizer's clock, for models. It refers to every slot of the tensor and ignores the
    /// gradient. Throws the errors of any_updater::initialize, buffer_error for const values, and
    /// value_error for a catch-up policy.
    any_parameter(any_updater const& optimizer, any_tensor const& memory, parameter_options options);
    /// Refers to the same or other memory. If it throws, nothing changes.
    void refer_to(any_tensor const& memory);

    /// Updates the parameter by one step, like gs::parameter::update. If you called `use_threads`,
    /// it uses those threads. Also throws value_error for a gradient of another type.
    update_result update(any_span gradient, step_options const& options = {});
    /// Updates the rows in `ids` by one step. The ids have an integer type, and gradient_rows
    /// contains ids.size x width elements. The gradients of a duplicate row are added; for elements
    /// of 16 bits their sum is rounded once. Other rows do not change, or the step is pending for
    /// them (catch_up). Throws the errors of update, and value_error for an id out of range.
    /// Nothing is written then.
    update_result update_rows(any_span ids, any_span gradient_rows, step_options const& options = {});

    /// The first half of a step of sharpness-aware minimization, as gs::parameter::ascend. Also
    /// throws value_error for a catch-up policy other than touch_only.
    ascent_result ascend(any_span gradient, sam_options const& how = {});
    /// The second half, as gs::parameter::descend.
    update_result descend(any_span gradient, step_options const& options = {});
    /// Whether `ascend` has moved the values, here or in the model, and neither `descend` nor
    /// `restore` was called.
    bool is_ascended() const { return is_ascended_; }

    /// The first half of a `dgc_momentum` step, as in gs::compressed_parameter: returns the message
    /// for the other trainers. Throws the same errors, and value_error for another rule.
    sparse_message compress(any_span gradient, step_options const& options = {});
    /// The second half: takes the step with the messages of all trainers, as a contiguous range or
    /// one by one, in rank order.
    template <class... Messages> void apply(Messages const&... messages) {
        detail::two_phase::require(updater_, "apply");
        detail::message_list all;
        (detail::append(all, messages), ...);
        begin_apply(all);
        detail::rollback_guard ended(
            [&] { end_two_phase(); }); // also if threads fail: a second call would change values twice
        run();
    }
    /// The largest encoded size in bytes of the next step's message; with `selection::exact` every
    /// message has this size. Throws value_error for another rule.
    std::size_t message_bound() const;
    /// Whether a step has begun whose messages have not been applied.
    bool awaits_messages() const { return two_phase_.awaits_messages(); }

    /// Uses the threads of an executor for updates. It must outlive the parameter.
    template <executor Executor> void use_threads(Executor& executor) { threads_.emplace(executor); }
    void use_threads(detail::executor_reference const& threads) { threads_ = threads; }
    /// Uses only the calling thread for updates.
    void use_callers_thread() { threads_.reset(); }
    /// The executor of `use_threads`, if you called it.
    std::optional<detail::executor_reference> const& threads() const { return threads_; }

    /// The number of elements, which is rows() x width().
    std::size_t size() const final { return rows_ * width_; }
    /// The number of rows.
    std::size_t rows() const { return rows_; }
    /// The number of elements of a row.
    std::size_t width() const { return width_; }
    /// The clock: the progress of the run.
    gradstep::clock clock() const { return updater_.clock(); }
    /// Sets the clock to the progress of a run. Throws value_error for a negative count. Throws
    /// sequence_error between the halves of a step, and if rows have a history of steps (exact,
    /// replay): load a checkpoint instead.
    void seek(gradstep::clock at);
    /// Replaces the hyperparameters by the numbers of `from`, from the next step on. Its rule,
    /// average and element must have the same types. Values, state and clock do not change. Throws
    /// value_error for other types, for a number out of range, and for another value of a number
    /// that must be the same in all steps (ranges::constant), and not_compiled_error. Throws
    /// sequence_error between the halves of a step, while averages are applied, and if rows have a
    /// history of steps with the old numbers. Nothing has changed then.
    void change_numbers(optimizer_configuration const& from);
    /// The policies. You can assign an updater with the same element and slots. A step throws
    /// value_error if only one of the two has a model-wise rule.
    any_updater const& optimizer() const { return updater_; }
    any_updater& optimizer() { return updater_; }
    /// The bytes that a step reads and writes for one element.
    std::size_t bytes_per_element() const final { return updater_.facts().bytes_per_element; }

    /// Returns the values, read-only, valid until the next update. It first applies pending steps
    /// by a flush. A const parameter cannot flush: it throws sequence_error if there are pending
    /// steps.
    any_span values();
    any_span values() const;
    /// Sets all values, after a flush. The state follows as in updater::weights_set, and training
    /// goes on from the new values; moments and the clock stay. Throws value_error for values of
    /// another type, size_error for another number, and buffer_error for memory that is missing,
    /// misaligned or overlaps the parameter's memory. Throws sequence_error while an average is
    /// applied, or between the halves of a step. Nothing has changed then.
    void set_values(any_span given);
    /// Call it after your program has set values in its memory, for models (model::weights_set).
    void weights_set();
    /// Applies the pending steps of every row, on the threads of an update. A second flush changes
    /// nothing. With touch_only there are no pending steps.
    void flush();
    /// A state slot by its number in optimizer().slots(), or by its name, without pending steps
    /// applied. Throws value_error for an unknown name.
    any_span state(std::size_t i) const { return state_[i].view(); }
    any_span state(std::string_view name) const;
    /// Copies the rows in `ids`, with pending steps applied, in their order: out contains ids.size
    /// x width elements of the type of the values.
    void read_rows(any_span ids, any_span out);

    using changing_rows::permute, changing_rows::reset;
    /// The functions of gs::changing_rows, for numbers of rows whose integer type is known at run
    /// time. All functions that change rows also throw value_error for memory of your program, for
    /// a shape with other rows than the parameter, and for a single row that catches up. `append`
    /// throws value_error for values of another type.
    void permute(any_span order);
    void reset(any_span rows);

    /// Writes the average that the policies keep to the caller's memory, after a flush. `out` has
    /// the type of the state or of the values. Throws value_error if the policies keep no average,
    /// and sequence_error between `ascend` and `descend`.
    void average(any_span out);
    /// Replaces the values by their average, until the returned object is destroyed or you call
    /// `restore()`.
    [[nodiscard]] applied_average<any_parameter> apply_average();
    /// Restores the trained values, bit for bit, after `apply_average` or `ascend`. Throws
    /// sequence_error if `ascend` of the model has moved them.
    void restore();
    /// Whether an average has replaced the values.
    bool average_is_applied() const { return average_is_applied_; }

    /// Writes a checkpoint, as gs::parameter::save does. The files are the same, so a gs::parameter
    /// with the same policies can load them.
    void save(std::string const& file) const;
    /// Resumes from a file of `save`, as gs::parameter::load does.
    void load(std::string const& file);
    /// Loads the parts that `options` select, and returns a load_report.
    load_report load(std::string const& file, load_options const& options);

    /// Sets the shape of the values for files and saved states. `load` rejects a file with another
    /// shape. Without `set_shape` the shape is rows() x width() if the constructor got another
    /// number of rows than 1, and a width above 1. Otherwise it is unknown: then only the number of
    /// elements must match. `muon` and `adafactor` use it, with all dimensions after the first one
    /// joined. Throws size_error for a shape with another number of elements. The state of a
    /// factored rule (adafactor) has its lengths: before the first step it is allocated again, and
    /// afterwards another shape throws sequence_error.
    void set_shape(std::vector<std::uint64_t> extents);
    /// The shape that files contain, if it is known.
    std::optional<std::vector<std::uint64_t>> shape() const;

    /// Throws buffer_error for memory that overlaps the values or the state.
    void require_apart(detail::extent const& given) const;

    /// Describes the state to a visitor, for checkpoints.
    void describe_state(detail::state_visitor& to) const;
    /// Resumes from a saved state, for checkpoints: its clock, id and seed. The state of the first
    /// `loaded` elements belongs to it; averages of the others stay as they are.
    void resume(gradstep::clock at, std::optional<std::uint64_t> id, std::optional<std::uint64_t> seed,
                std::size_t loaded = SIZE_MAX);
    /// The same for a model.
    void resume(gradstep::clock at, std::size_t loaded);
    /// The same for the pending steps of rows.
    void resume(rows_type rows) { stamps_ = std::move(rows); }
    /// The id for random numbers, if the updater draws random bits.
    std::optional<std::uint64_t> drawing_id() const;
    /// Adds the hash of a name to the id of the constructor, for random numbers of its own. If the
    /// parameter has taken a step, or another id by `load`, it keeps that, unless `always`.
    void set_name(std::string_view name, bool always = false);
    /// The seed of the run for random numbers.
    std::uint64_t seed() const { return seed_; }
    /// The rows with pending steps, or null, for checkpoints, which equal a gs::table's.
    rows_type* stamps() { return stamps_ ? &*stamps_ : nullptr; }
    rows_type const* stamps() const { return stamps_ ? &*stamps_ : nullptr; }
    /// The options of the constructor.
    parameter_options const& options() const { return options_; }

    /// @cond
    // The rest is for gs::update_all and for the tasks of models, which drive a step by its parts.
    // `take_gradient` checks the gradient and refers to it. `advance` prepares the next step and
    // advances the clock. A dgc_momentum step has two halves: `begin_message`, like `advance`, with
    // or without a gradient; `message`; `begin_apply`, which throws before anything changes; `run`;
    // and `end_two_phase`, also if the rest will not run.
    static void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                           step_options const& options);
    detail::step_task& step() { return *this; }
    detail::step_task const& step() const { return *this; }
    void take_gradient(any_span gradient, step_options const& options, char const* call);
    any_span gradient() const { return gradient_; }
    void advance(step_options const& options, tensor_options const& own = {});
    bool compresses() const { return detail::two_phase::rule_of(updater_) != nullptr; }
    void begin_message(step_options const& options, tensor_options const& own, bool has_gradient);
    sparse_message message() { return two_phase_.message(updater_, gradient_); }
    void begin_apply(detail::message_list const& messages);
    void end_two_phase() { two_phase_.end(updater_); }
    // The parts of an ascent, as in detail::parameter_task.
    void begin_ascent();
    void measure_ascent(sam_options const& how, std::size_t first, std::size_t last);
    double ascent_squares(double scale) const;
    void keep_weights(std::size_t first, std::size_t last);
    void move_weights(sam_options const& how, double scale, std::size_t first, std::size_t last);
    void restore_weights(std::size_t first, std::size_t last);
    void require_kept() const;
    void read_kept_weights(bool is) { reads_kept_ = is; }
    void set_ascent_lock(bool is) { is_ascended_ = is_locked_for_ascent_ = is; }
    // The parts of a change of rows, for changing_rows and for models. `rearranged` allocates all
    // memory, then flushes, and the parameter has the same values after an error. `commit_rows`
    // changes the parameter.
    struct added_rows {
        any_span values = {};
        std::size_t size() const { return values.size; }
    };
    struct rearranged_memory {
        detail::any_buffer values = {};
        std::array<detail::any_buffer, runtime::most_slots> state = {};
        std::vector<std::uint32_t> stamps = {};
        std::optional<std::vector<std::uint64_t>> extents = {}; // of set_shape
        gradstep::shape shape = {};                             // of the options
        std::size_t rows = 0, width = 0;
    };
    detail::row_lengths row_lengths(char const* call) const;
    added_rows added_values(any_span given) const;
    rearranged_memory rearranged(detail::row_order const& order, added_rows const& added);
    void commit_rows(rearranged_memory&& made) noexcept;
    /// @endcond

private:
    // The functions of step_task, for step_driver. They are final, so that calls on an
    // any_parameter are direct.
    GRADSTEP_DEFINE_RUNTIME void add_memory(detail::apart_check& to, bool zeroes) final;
    std::size_t buffers() const final { return 2 + updater_.slots(); }
    GRADSTEP_DEFINE_RUNTIME char const* buffer_name(std::size_t i) const final;
    GRADSTEP_DEFINE_RUNTIME std::size_t find_nonfinite(std::size_t first, std::size_t last) const final;
    double block_sum(std::size_t block, double scale) const final {
        return updater_.compiled().block_sum(gradient_.data, gradient_.size, block, scale);
    }
    double weight_block_sum(std::size_t block, double scale) const final {
        return updater_.compiled().block_sum((reads_kept_ ? kept_ : values_).view().data, size(), block, scale);
    }
    double sum_of_squares(double) const final { return 0; } // computed in blocks
    detail::norm_limit own_limit() const final { return limit_; }
    bool reads_in_chunks() const final { return true; }
    GRADSTEP_DEFINE_RUNTIME void zero_gradient() const final;
    GRADSTEP_DEFINE_RUNTIME void prepare(step_options const& options, double clip) final;
    GRADSTEP_DEFINE_RUNTIME void withdraw() final;
    GRADSTEP_DEFINE_RUNTIME void run(std::size_t first, std::size_t last) const noexcept final;
    void run_whole(detail::launch_batch&) final { run(); }
    std::uint64_t hash_of_rule() const final { return updater_.hash_of_rule(); }
    gradstep::clock clock_before() const final { return before_; }
    clock_state before_sums() const final { return updater_.prepared_step().state; }
    detail::model_sums sums_of_block(std::size_t block) const noexcept final {
        return updater_.compiled().sums_of_block(tensor(gradient_.data), block);
    }
    clock_state settled(detail::model_sums const& sums) const final { return updater_.compiled().settled(sums); }
    void settle(clock_state const& after) final { updater_.settle(after); }
    bool runs_in_chunks() const final { return !updater_.facts().is_whole() && !two_phase_.runs() && !stamps_; }
    void run();
    // A step of which everything is checked; calls `before_it` when nothing can fail any more.
    template <class F> void take_step(step_options const& options, F const& before_it);

    // The element for which `on_nonfinite` leaves the step out. Throws nonfinite_error under
    // `raise`.
    std::optional<std::size_t> refused_nonfinite() const;
    // Rows outside the step miss it from now on.
    void begin_step();

    // Calls f(first, last) for parts of the elements, on the threads of an update.
    template <class F> void for_each_part(F const& f) {
        std::size_t const bytes = size() * bytes_per_element(), parts = threads_ ? threads_->small_parts_for(bytes) : 1;
        auto const run_part = [&](std::size_t p) { f(p * size() / parts, (p + 1) * size() / parts); };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    }
    // What calls need memory for, which is kept for the next call. A copy of a parameter begins
    // without it.
    class workspace {
    public:
        workspace() = default;
        workspace(workspace const&);
        workspace(workspace&&) noexcept;
        workspace& operator=(workspace const&);
        workspace& operator=(workspace&&) noexcept;
        ~workspace();
        detail::parameter_scratch& operator*();

    private:
        std::unique_ptr<detail::parameter_scratch> made_;
    };

    static void copy_bytes(void* to, detail::any_buffer const& from);
    void use_own_threads();
    bool is_behind() const { return stamps_ && stamps_->is_behind(); }
    // A step of all elements, on rows [first, last).
    void run_all_rows(std::size_t first, std::size_t last) const noexcept;
    // Calls f(first, last) for parts of the rows, on the threads of an update.
    template <class F> void for_each_row(F const& f) {
        std::size_t const bytes = size() * bytes_per_element(), parts = threads_ ? threads_->small_parts_for(bytes) : 1;
        auto const run_part = [&](std::size_t p) { f(p * rows_ / parts, (p + 1) * rows_ / parts); };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    }
    // Adds the scale that clips the norm of this gradient alone.
    step_options clipped(step_options options);
    bool has_rows_of_their_own() const { return updater_.facts().is_row_wise && has_rows_ && width_ > 1; }
    void make_memory(std::size_t n);
    void make_state(std::size_t n, gradstep::shape const& of);
    void reshape(gradstep::shape const& of);
    void begin();
    void require_rows(char const* call) const;
    void require_trained(char const* call) const;
    void next_step(step_options options, tensor_options const& own);
    void require_average(char const* call) const;
    static std::size_t bytes_of(any_span const& x) { return x.size * size_of(x.type); }
    void require_room(any_span const& out, scalar type, std::size_t size, char const* call) const;
    // Throws unless it contains `count` elements, is aligned, and does not overlap written memory.
    any_span checked_gradient(any_span const& given, std::size_t count, step_options const& options) const;
    // The same for a step of this parameter alone: zeroes the gradient if requested.
    std::optional<std::size_t> skip_nonfinite(step_options const& options) const;

    std::byte* value_at(std::size_t i) const;
    void const* gradient_at(std::size_t i) const;
    runtime::erased_tensor tensor(void const* gradient) const;
    gradstep::shape matrix() const;
    // Row r as a separate tensor.
    runtime::erased_tensor row_tensor(std::size_t r, void const* gradient) const;
    runtime::erased_tensor row_of(runtime::erased_tensor all, std::size_t r) const;
    // Sets the state as it begins after `step` steps.
    void begin_state(runtime::erased_tensor const& all, std::size_t rows, std::int64_t step) const;

    // Numbers of any integer type, converted in `memory` if necessary; and validated ids of rows.
    static std::span<std::int64_t const> numbers_of(any_span const& given, std::size_t rows, char const* call,
                                                    std::vector<std::int64_t>& memory);
    std::span<std::int64_t const> ids_of(any_span const& given, char const* call);
    void prefetch(std::size_t row) const noexcept;
    // Rows [first, last) of a batch; `sum` has room for a row.
    struct distinct_rows;
    void run_rows(distinct_rows const& of, std::size_t first, std::size_t last, void* sum) const noexcept;
    void read_average(scalar type, void* out) const;

    static void separate_ids(std::span<any_parameter* const> all);
    any_updater updater_;
    parameter_options options_;
    std::uint64_t given_id_, seed_ = 0; // given_id_: by the constructor; options_.id can be another one
    std::size_t rows_, width_;
    bool has_rows_ = false; // else rows_ is 1, and width_ the number of all elements
    detail::norm_limit limit_ = {};
    detail::any_buffer values_, trained_; // trained_: while the average is applied
    detail::any_buffer kept_;             // the values before an ascent
    std::array<detail::any_buffer, runtime::most_slots> state_;
    std::optional<detail::stamped_rows> stamps_;                                   // if rows have pending steps
    bool average_is_applied_ = false, is_taken_ = false;                           // is_taken_: by update_all
    bool is_ascended_ = false, is_locked_for_ascent_ = false, reads_kept_ = false; // the model's ascent; kept_
    std::optional<detail::executor_reference> threads_;
    any_span gradient_; // of this update, like the following members
    gradstep::clock before_;
    detail::two_phase two_phase_;
    std::optional<std::vector<std::uint64_t>> shape_; // set by set_shape
    workspace memory_;
};

/// Updates several parameters with any policies by one step each, in one call. gradients[k] is for
/// all[k]. The call is one pass, split by memory traffic over the threads of the parameter with the
/// most threads. A gradient must not overlap the memory of any parameter, and with zero_gradient no
/// other gradient. Each parameter's options define whether a non-finite gradient is skipped or
/// rejects the call.
///
/// Parameters with the same model-wise rule (prodigy, dog) are one model: their clocks must be
/// equal, and a gradient that is skipped skips the step of all of them.
///
/// Throws the errors of any_parameter::update, with the number of the parameter, and value_error
/// for a duplicate parameter. No parameter has changed then.
void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                step_options const& options = {});
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/any_parameter.ipp>
#endif
