#pragma once
#include <gradstep/base/error.hpp>
#include <gradstep/compression/detail/message_list.hpp>
#include <gradstep/compression/sparse_message.hpp>
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/memory/applied_average.hpp>
#include <gradstep/memory/detail/extent.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/detail/parameter_rows.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/saved/load_options.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/changing_rows.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/step/step_options.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
struct parameter_scratch;
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
class any_parameter : private detail::dense_parameter, public changing_rows<any_parameter> {
public:
    /// Copies the optimizer and the values of `initial`, and sets the state to step 0. The clock
    /// starts at 0. The values have the optimizer's type, and are zero if `initial` has no memory.
    /// Without `rows` there is one row with all elements. Throws value_error, size_error or
    /// buffer_error; a `bfloat16_copy` needs values of float32, and another rule than dgc_momentum.
    /// Throws not_compiled_error if the catch-up policy is not compiled for the rule.
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
    /// contains ids.size x width elements. The gradients of a duplicate row are added, as in a
    /// gs::table. Other rows do not change, or the step is pending for them (catch_up). Throws the
    /// errors of update, and value_error for an id out of range.
    /// Nothing is written then.
    update_result update_rows(any_span ids, any_span gradient_rows, step_options const& options = {});

    /// The first half of a step of sharpness-aware minimization, as gs::parameter::ascend. Also
    /// throws value_error for a catch-up policy other than touch_only.
    ascent_result ascend(any_span gradient, sam_options const& how = {});
    /// The second half, as gs::parameter::descend.
    update_result descend(any_span gradient, step_options const& options = {});
    /// Whether `ascend` has moved the values, here, in `ascend_all` or in the model, and neither
    /// `descend` nor `restore` was called.
    using dense_parameter::is_ascended;

    /// The first half of a `dgc_momentum` step, as in gs::compressed_parameter: returns the message
    /// for the other trainers. Throws the same errors, and value_error for another rule.
    sparse_message compress(any_span gradient, step_options const& options = {});
    /// The second half: takes the step with the messages of all trainers, as a contiguous range or
    /// one by one, in rank order.
    template <class... Messages> void apply(Messages const&... messages) {
        detail::message_list all;
        (detail::append(all, messages), ...);
        apply_all(all);
    }
    /// The largest encoded size in bytes of the next step's message; with `selection::exact` every
    /// message has this size. Throws value_error for another rule.
    std::size_t message_bound() const;
    /// Whether a step has begun whose messages have not been applied.
    bool awaits_messages() const { return awaited_step() != 0; }

    /// Uses the threads of an executor for updates. It must outlive the parameter.
    template <executor Executor> void use_threads(Executor& executor) { threads_.emplace(executor); }
    void use_threads(detail::executor_reference const& threads) { threads_ = threads; }
    /// Uses only the calling thread for updates.
    void use_callers_thread() { threads_.reset(); }
    /// The executor of `use_threads`, if you called it.
    std::optional<detail::executor_reference> const& threads() const { return threads_; }

    /// The number of elements, which is rows() x width().
    using dense_parameter::size;
    /// The number of rows.
    std::size_t rows() const { return rows_; }
    /// The number of elements of a row.
    std::size_t width() const { return width_; }
    /// The clock: the progress of the run.
    using dense_parameter::clock;
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
    /// value_error if only one of the two has a model-wise rule. If rows have a history of steps
    /// (exact, replay), only the schedule can be another one: otherwise a step, save and load throw
    /// value_error, and a flush still takes the numbers of the history. With another clock, all
    /// but a load throw sequence_error.
    any_updater const& optimizer() const { return updater_; }
    any_updater& optimizer() {
        is_replaced_ = true;
        return updater_;
    }
    /// The bytes that a step reads and writes for one element.
    using dense_parameter::bytes_per_element;

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
    using dense_parameter::weights_set;
    /// Applies the pending steps of every row, on the threads of an update, and writes their
    /// bfloat16_copy. A second flush changes nothing. With touch_only there are no pending steps.
    void flush();
    /// From now on, every step and `flush` also write the values, rounded to bfloat16, to this
    /// memory, which you keep (parameter_options::bfloat16_copy); empty memory ends it. The call
    /// applies pending steps, and writes the present values. Other calls that change values do not
    /// write the copy: call it again after `set_values`, `load`, `apply_average` or `restore`.
    /// Throws the errors of the constructor, buffer_error for memory that is misaligned or overlaps
    /// values or state, and sequence_error between `ascend` and `descend`. Nothing has changed
    /// then.
    void set_bfloat16_copy(std::span<bfloat16> memory);
    /// A state slot by its number in optimizer().slots(), or by its name, without pending steps
    /// applied. Throws value_error for an unknown name, and for state in blocks.
    any_span state(std::size_t i) const {
        scalar const type = updater_.state_type();
        return {type, static_cast<void const*>(memory_.state(i)), memory_.state_bytes(i) / size_of(type)};
    }
    any_span state(std::string_view name) const { return state(slot_named(name)); }
    /// The same slot in blocks, of element_form::block8. Throws value_error for other elements.
    std::span<coded_block const> blocks(std::string_view name) const;
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
    void restore() { dense_parameter::restore(); }
    /// Whether an average has replaced the values.
    using dense_parameter::average_is_applied;

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
    using dense_parameter::require_apart;

    /// Describes the state to a visitor, for checkpoints.
    GRADSTEP_DEFINE_RUNTIME void describe_state(detail::state_visitor& to, bool decay = true) const override;
    /// Resumes from a saved state, for checkpoints: its clock, id and seed. The state of the first
    /// `loaded` elements belongs to it; averages of the others stay as they are.
    void resume(gradstep::clock at, std::optional<std::uint64_t> id, std::optional<std::uint64_t> seed,
                std::size_t loaded = SIZE_MAX);
    using dense_parameter::resume;
    /// The id for random numbers, if the updater draws random bits.
    std::optional<std::uint64_t> drawing_id() const;
    /// Adds the hash of a name to the id of the constructor, for random numbers of its own. If the
    /// parameter has taken a step, or another id by `load`, it keeps that, unless `always`.
    void set_name(std::string_view name, bool always = false);
    /// The seed of the run for random numbers.
    std::uint64_t seed() const { return seed_; }
    /// Whether rows catch up on pending steps (a catch-up policy other than touch_only).
    bool catches_up() const { return catches_up_; }
    /// The options of the constructor.
    using dense_parameter::options;

    /// @cond
    // The rest is for gs::update_all and its kind, and for the tasks of models.
    static void update_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                           step_options const& options);
    static ascent_result ascend_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                                    sam_options const& how);
    static void descend_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                            step_options const& options);
    detail::dense_parameter& core() { return *this; }
    static std::unique_ptr<detail::dense_parameter> owned(any_parameter of) {
        return std::unique_ptr<detail::dense_parameter>(new any_parameter(std::move(of)));
    }
    detail::dense_parameter const& core() const { return *this; }
    // The rows, of a parameter whose rows catch up; for other calls than `progress` and `stamps`,
    // `rows_in_place`.
    detail::parameter_rows const& tracked_rows() const { return *table_; }
    detail::parameter_rows& rows_in_place();
    // The same, while rows have pending steps.
    detail::parameter_rows& rows_behind();
    // Throw if rows have a history of other policies than the updater has, or also of other steps.
    void require_same_policies() const {
        if (is_replaced_) table_->require_same_policies(updater_);
    }
    void require_own_history() const {
        require_same_policies();
        table_->require_same_steps(clock());
    }
    void take_gradient(any_span const& gradient, step_options const& options, char const* call);
    GRADSTEP_DEFINE_RUNTIME void advance(step_options const& options, tensor_options const& own) override;
    // The parts of a change of rows, for changing_rows and for models. `rearranged` allocates all
    // memory, then flushes, and the parameter has the same values after an error. `commit_rows`
    // changes the parameter.
    struct added_rows {
        any_span values = {};
        std::size_t size() const { return values.size; }
    };
    struct rearranged_memory {
        detail::dense_memory memory = {};
        std::vector<std::uint32_t> stamps = {};
        std::optional<std::vector<std::uint64_t>> extents = {}; // of set_shape
        gradstep::shape shape = {};                             // of the options
        std::size_t rows = 0, width = 0;
    };
    GRADSTEP_DEFINE_RUNTIME detail::row_lengths row_lengths(char const* call) const override;
    added_rows added_values(any_span given) const;
    rearranged_memory rearranged(detail::row_order const& order, added_rows const& added);
    void commit_rows(rearranged_memory&& made) noexcept;
    /// @endcond

private:
    // The functions of dense_parameter.
    detail::stepper& by() noexcept override { return updater_; }
    bool is_of_run_time() const override { return true; }
    GRADSTEP_DEFINE_RUNTIME void join(std::string const& name, tensor_options const& options) override;
    GRADSTEP_DEFINE_RUNTIME void use_shape(gradstep::shape const& of) override;
    GRADSTEP_DEFINE_RUNTIME void follow(bool checks) override;
    GRADSTEP_DEFINE_RUNTIME std::optional<detail::given_gradient> own_gradient() override;
    GRADSTEP_DEFINE_RUNTIME bool give_average(detail::type_id element, void* out) override;
    GRADSTEP_DEFINE_RUNTIME detail::type_id storage_type() const override;
    detail::type_id face_type() const override { return lent_ ? nullptr : detail::type_id_of<any_parameter>(); }
    void* face() override { return lent_ ? nullptr : this; }
    GRADSTEP_DEFINE_RUNTIME std::unique_ptr<detail::pending_rows>
    changed_rows(detail::row_order const& order, void const* added, std::size_t count) override;
    void run_whole(detail::launch_batch&) override { run_alone(); }
    bool runs_in_chunks() const override { return !catches_up_ && dense_parameter::runs_in_chunks(); }
    detail::norm_limit own_limit() const override { return limit_; }
    std::uint64_t own_seed() const override {
        return seed_ != 0 ? seed_ : static_cast<std::uint64_t>(updater_.options().seed);
    }
    GRADSTEP_DEFINE_RUNTIME void begin_alone(step_options const& options) override;
    GRADSTEP_DEFINE_RUNTIME void run_alone() override;
    GRADSTEP_DEFINE_RUNTIME void ascend_alone(sam_options const& how, double scale, bool measures) override;
    GRADSTEP_DEFINE_RUNTIME detail::compression_kernels* compression() override;
    void next_step(step_options const& options, tensor_options const& own) override {
        next_step(options, own, nullptr);
    }
    void next_step(step_options const& options, tensor_options const& own, any_updater const* like);
    GRADSTEP_DEFINE_RUNTIME void put_average() override;
    GRADSTEP_DEFINE_RUNTIME void describe_shape(detail::state_visitor& to) const override;
    GRADSTEP_DEFINE_RUNTIME void require_trained(char const* call) const override;
    GRADSTEP_DEFINE_RUNTIME gradstep::shape matrix() const override;

    // The prepared step, on the threads of an update; of a model-wise rule, after its sums.
    void run_prepared();

    // What calls need memory for, which is kept for the next call. A copy of a parameter begins
    // without it.
    class workspace {
    public:
        workspace() = default;
        workspace(workspace const&) {}
        workspace(workspace&&) = default;
        workspace& operator=(workspace const&) { return *this; }
        workspace& operator=(workspace&&) = default;
        detail::parameter_scratch& operator*();

    private:
        std::unique_ptr<detail::parameter_scratch, void (*)(detail::parameter_scratch*)> made_{nullptr, nullptr};
    };

    std::size_t slot_named(std::string_view name) const;
    // Throws unless the copy in bfloat16 fits the values, and is apart from them, the state and the
    // gradient; and writes elements [first, last) of it, if there is one.
    void require_copy() const;
    void write_copy(std::size_t first, std::size_t last) const noexcept;
    void set_id(std::uint64_t id) { options_.id = id_ = id; }
    void use_own_threads();
    bool is_behind() const { return catches_up_ && table_->is_behind; }
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
    // The number of rows that have their own numbers in row slots, or 0.
    std::size_t own_rows() const { return has_rows_of_their_own() ? rows_ : 0; }
    void reshape(gradstep::shape const& of);
    void require_rows(char const* call) const;
    step_options seeded(step_options options) const;
    bool compresses() const { return updater_.facts().sends_messages; }
    dgc_momentum const& compressing_rule(char const* call) const;
    void apply_all(detail::message_list const& messages);
    static std::size_t bytes_of(any_span const& x) { return x.size * size_of(x.type); }
    void require_room(any_span const& out, scalar type, std::size_t size, char const* call) const;
    // Throws unless it contains `count` elements, is aligned, and does not overlap written memory.
    detail::given_gradient checked_gradient(any_span const& given, std::size_t count,
                                            step_options const& options) const;

    void const* gradient_at(std::size_t i) const;
    // Row r as a separate tensor.
    runtime::erased_tensor row_tensor(std::size_t r, void const* gradient) const;

    // Numbers of any integer type, converted in `memory` if necessary; and validated ids of rows.
    static std::span<std::int64_t const> numbers_of(any_span const& given, std::size_t rows, char const* call,
                                                    std::vector<std::int64_t>& memory);
    std::span<std::int64_t const> ids_of(any_span const& given, char const* call);

    struct given_parameters;
    static given_parameters take_gradients(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                                           step_options const& options, char const* call);
    static void step_all(std::span<any_parameter* const> all, given_parameters const& given,
                         step_options const& options, bool goes_back);
    void require_no_history() const; // of rows, for an ascent: throws value_error
    static void separate_ids(std::span<any_parameter* const> all);
    std::uint64_t given_id_, seed_ = 0; // given_id_: by the constructor; options_.id can be another one
    std::size_t rows_, width_;
    bool has_rows_ = false; // else rows_ is 1, and width_ the number of all elements
    detail::norm_limit limit_ = {};
    bool catches_up_ = false;
    bool is_replaced_ = false; // perhaps: the program has a reference to the updater
    bool is_taken_ = false;    // by a call of several
    std::optional<detail::executor_reference> threads_;
    any_updater updater_; // after what steps read, since it begins with that, too
    // The application's memory that it refers to.
    struct lent_memory {
        any_tensor tensor;
        std::vector<any_span> slots;
        bool follows; // it is in containers
    };
    std::optional<lent_memory> lent_;
    std::optional<std::vector<std::uint64_t>> shape_; // set by set_shape
    workspace scratch_;
    std::optional<detail::parameter_rows> table_; // made for the first step of some rows, or if rows catch up
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

/// The first half of a step of sharpness-aware minimization of several parameters, as
/// gs::model::ascend: by the norm of all gradients together. If one of them is not finite, and its
/// parameter's options skip such steps, no parameter moves, and the result is not `applied`.
/// `restore` of a parameter takes it back without a step. Throws the errors of update_all and
/// any_parameter::ascend. Nothing has changed then.
ascent_result ascend_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                         sam_options const& how = {});
/// The second half: restores the values of these parameters, and updates them as update_all. One
/// whose gradient is skipped is restored, too. Throws the errors of update_all, and sequence_error
/// for a parameter that has not ascended. Nothing has changed then.
void descend_all(std::span<any_parameter* const> all, std::span<any_span const> gradients,
                 step_options const& options = {});

/// @cond
/// A parameter of a gs::model with this name over your memory. gs::model::add calls it.
std::unique_ptr<detail::dense_parameter> lent_parameter(std::string const& name, any_updater const& optimizer,
                                                        any_tensor const& tensor);
/// @endcond
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/any_parameter.ipp>
#endif
