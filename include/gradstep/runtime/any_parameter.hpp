#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gradstep/core/apart.hpp>
#include <gradstep/core/applied_average.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/extent.hpp>
#include <gradstep/core/parameter_options.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/io/load_options.hpp>
#include <gradstep/model/norm_limit.hpp>
#include <gradstep/runtime/any_buffer.hpp>
#include <gradstep/runtime/any_compression.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/runtime/stamped_rows.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {
class any_owning_task;
class parameter_task;
} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {

/// A parameter whose policies are chosen at run time, the counterpart of `gs::parameter`. It owns
/// values, state slots and clock, on the host.
///
///     gs::any_parameter weights{gs::read_optimizer(text), initial};
///     weights.update(gradient);
///
/// It may have rows, of which a step can name some: `any_parameter{optimizer, initial, {}, rows, width}`. A row-wise rule (lamb)
/// then takes every row for a tensor of its own, else the whole. What rows do about the steps that they missed is the catch-up
/// policy of the optimizer: under `touch_only` nothing, under `exact` and `replay` they catch up, as those of a gs::table do,
/// when a step names them, when they are read, and all of them by `flush` and by a step of all.
class any_parameter {
public:
    /// What a gs::model holds it by.
    using task_type = detail::any_owning_task;
    /// What rows that catch up have, for checkpoints.
    using rows_type = detail::stamped_rows;

    /// Copies the optimizer and the values of `initial`, of the type that the optimizer works on, zeros where it has no memory, and
    /// sets the state to that of step 0; the clock starts at 0. Without `rows` it is one of all. Throws value_error (for a
    /// `bfloat16_copy` too, which no step here writes), size_error or buffer_error, and not_compiled_error for a catch-up policy that
    /// is not compiled for the rule.
    any_parameter(any_updater const& optimizer, any_span initial, parameter_options options = {}, std::size_t rows = 1,
                  std::optional<std::size_t> width = {});
    /// The same from an optimizer's text, for values of the type of `initial`. Its own updates use the `threads` of
    /// the text, until `use_threads` gives an executor. A gs::model uses its own threads.
    any_parameter(optimizer_configuration const& from, any_span initial, std::size_t rows = 1,
                  std::optional<std::size_t> width = {});

    /// For models: values and state in the caller's memory, as they are, from where the clock of the optimizer stands. Every slot of the
    /// tensor is referred to; the gradient is not looked at. Throws as any_updater::initialize, buffer_error for values that are
    /// const, and value_error for a catch-up policy.
    any_parameter(any_updater const& optimizer, any_tensor const& memory, parameter_options options);
    /// The same memory, or another. What is thrown leaves it where it was.
    void refer_to(any_tensor const& memory);

    /// As gs::parameter::update, on the threads of `use_threads`, if that was called. Throws also value_error for a gradient of
    /// another type.
    update_result update(any_span gradient, step_options const& options = {});
    /// One step of the rows that `ids` name, an integer type: gradient_rows has ids.size x width elements, and those of a row that
    /// is named several times are added, in elements of 16 bits with one rounding of their sum. The other rows stay as they are, or
    /// miss the step (catch_up). Throws as update, and value_error for an id out of range; nothing is written then.
    update_result update_rows(any_span ids, any_span gradient_rows, step_options const& options = {});

    /// The halves of a step of `dgc_momentum`, as gs::parameter has them: what goes to the other trainers, and the step with the messages
    /// of all, a contiguous range of them or one by one, in the order of their ranks. Throws as those, and value_error for another
    /// rule.
    sparse_message compress(any_span gradient, step_options const& options = {});
    template <class... Messages> void apply(Messages const&... messages) {
        detail::any_halves::require(updater_, "apply");
        detail::message_list all;
        (detail::append(all, messages), ...);
        begin_apply(all);
        detail::undo_unless_done ended(
            [&] { end_halves(); }); // also if threads fail: a second call would change values twice
        run();
    }
    /// The most bytes that the message of the next step has when it is encoded: `selection::exact` has as many. Throws value_error for
    /// another rule.
    std::size_t message_bound() const;
    /// Whether a step has begun whose messages have not been applied.
    bool awaits_messages() const { return halves_.awaits_messages(); }

    /// Uses the threads of an executor, which must outlive the parameter; or the caller's thread
    /// only.
    template <executor Executor> void use_threads(Executor& executor) { threads_.emplace(executor); }
    void use_threads(detail::executor_reference const& threads) { threads_ = threads; }
    void use_callers_thread() { threads_.reset(); }
    std::optional<detail::executor_reference> const& threads() const { return threads_; }

    /// The number of elements, `size()`: rows() times width(); the `clock()`; the `optimizer()`.
    std::size_t size() const { return rows_ * width_; }
    std::size_t rows() const { return rows_; }
    std::size_t width() const { return width_; }
    gradstep::clock clock() const { return updater_.clock(); }
    /// Puts the clock to where a run stood. Throws value_error for a negative count, and sequence_error between the halves of a step
    /// and where rows catch up: they have a history of their steps, and go on from a checkpoint.
    void seek(gradstep::clock at);
    /// Goes on with the numbers of `from`, whose rule, average and element are of the same types, from the next step on; values, state
    /// and clock stay. Throws value_error for other types and for a number out of its range, not_compiled_error, and sequence_error
    /// between the halves of a step, while averages are in the place of the values, and where rows catch up: their history
    /// is of steps with the numbers before. Nothing has changed then.
    void change_numbers(optimizer_configuration const& from);
    any_updater const& optimizer() const { return updater_; }
    any_updater& optimizer() { return updater_; }
    std::size_t bytes_per_element() const { return updater_.facts().bytes_per_element; }

    /// The values, read-only, until the next update; of rows that catch up after a flush. Of one that is const they have to be caught
    /// up: it throws sequence_error where some rows are not.
    any_span values();
    any_span values() const;
    /// Sets all values, after a flush. A master copy becomes the new values. The rest of the state, its averages too,
    /// and the clock stay as they are. Throws value_error for values of another type, size_error for another number
    /// of them, and buffer_error for memory that is missing, misaligned or overlaps the parameter's memory. Throws
    /// sequence_error while an average is in the place of the values, or between the halves of a step. Nothing has
    /// changed then.
    void set_values(any_span given);
    /// Catches up every row on the steps so far, on the threads of an update. A second flush changes nothing, and under touch_only
    /// none does.
    void flush();
    /// State slot i of optimizer().slots(), or the one of a name, as it is: not caught up. Throws value_error for an unknown name.
    any_span state(std::size_t i) const { return state_[i].view(); }
    any_span state(std::string_view name) const;
    /// Copies of the rows that ids name, caught up, in their order: out has ids.size x width elements of the type of the values.
    void read_rows(any_span ids, any_span out);

    /// As those of gs::parameter, after a flush; the average goes to memory of the caller's, of the type of the state or of the
    /// values. Throws value_error where the policies keep none.
    void average(any_span out);
    [[nodiscard]] applied_average<any_parameter> apply_average();
    void restore();
    bool average_is_applied() const { return average_is_applied_; }

    /// As those of gs::parameter, whose files these are too: one that is compiled by its type loads what this saves.
    void save(std::string const& file) const;
    void load(std::string const& file);
    load_report load(std::string const& file, load_options const& options);

    /// The shape of the values for files and saved states, which are refused where theirs is another one. Without `set_shape` it is
    /// rows() x width() where both are more than 1, and else not known: then the number of elements must match. Throws
    /// size_error for a shape of another number of elements.
    void set_shape(std::vector<std::uint64_t> extents);
    std::optional<std::vector<std::uint64_t>> shape() const;

    /// Throws buffer_error for memory that overlaps that of the values or the state.
    void require_apart(detail::extent const& given) const;

    /// The parts of an update, in this order, for those who update several together (`update_all`, `gs::model`): `take` checks the
    /// gradient and refers to it, `find_nonfinite` looks at elements [first, last) of it, `block_sum` sums the squares of a block of
    /// it, by which a norm is held to `own_limit`, `prepare` moves the clock, `withdraw` puts it back; after `begin_step`, from
    /// which on rows miss the step that do not take it, `run` is the step of elements [first, last), where it comes `in_pieces()`, else `run()` of all.
    void take(any_span gradient, step_options const& options, char const* call);
    any_span gradient() const { return gradient_; }
    /// Adds the memory of a step to what has to lie apart: values, gradient, then the slots, `buffers()` of them.
    void add_memory(detail::apart_check& to, bool zeroes) const;
    std::size_t buffers() const { return 2 + updater_.slots(); }
    char const* buffer_name(std::size_t i) const;
    std::size_t find_nonfinite(std::size_t first, std::size_t last) const;
    double block_sum(std::size_t block, double scale) const;
    double sum_of_squares(double) const { return 0; } // it comes in pieces
    static constexpr bool reads_in_pieces() { return true; }
    detail::norm_limit own_limit() const { return limit_; }
    void zero_gradient() const;
    void prepare(step_options const& options, member_options const& own = {});
    void begin_step();
    void withdraw();
    bool in_pieces() const { return !updater_.facts().is_row_wise && !halves_.runs() && !stamps_; }
    void run(std::size_t first, std::size_t last) const noexcept;
    void run();

    /// The parts of a `dgc_momentum` step in two halves: `begin_message` like prepare, with or
    /// without a taken gradient; `message`; `begin_apply`, which throws before anything changes;
    /// `run`; `end_halves`, also if the rest will not run.
    bool compresses() const { return detail::any_halves::rule_of(updater_) != nullptr; }
    void begin_message(step_options const& options, member_options const& own, bool has_gradient);
    sparse_message message() { return halves_.message(updater_, gradient_); }
    void begin_apply(detail::message_list const& messages);
    void end_halves() { halves_.end(updater_); }

    /// For checkpoints: what there is to save; where a run goes on; and the name under which random bits are drawn, if any are, with the
    /// `seed()` of the run.
    void visit_state(detail::state_visitor& to) const;
    void resume(gradstep::clock at, std::optional<std::uint64_t> id, std::optional<std::uint64_t> seed);
    void resume(rows_type rows) { stamps_ = std::move(rows); }
    std::optional<std::uint64_t> drawing_id() const;
    std::uint64_t seed() const { return seed_; }
    /// The rows with pending steps, else null. For checkpoints, which then equal those of a
    /// gs::table.
    rows_type* stamps() { return stamps_ ? &*stamps_ : nullptr; }
    rows_type const* stamps() const { return stamps_ ? &*stamps_ : nullptr; }
    /// The options of the constructor.
    parameter_options const& options() const { return options_; }

    /// For `update_all`: whether the parameter is among those of a call. Returns what was there before.
    bool set_taken(bool taken) { return std::exchange(is_taken_, taken); }
    /// The same: what holds the memory of a call to be apart, which is kept for the next call.
    detail::apart_check& overlaps();
    /// The element for which `on_nonfinite` leaves the step out. Throws nonfinite_error under `raise`.
    std::optional<std::size_t> refused_nonfinite() const;

private:
    // What calls need memory for, which is kept for the next call. A copy of a parameter begins without it.
    struct scratch;
    class workspace {
    public:
        workspace() = default;
        workspace(workspace const&);
        workspace(workspace&&) noexcept;
        workspace& operator=(workspace const&);
        workspace& operator=(workspace&&) noexcept;
        ~workspace();
        scratch& operator*();

    private:
        std::unique_ptr<scratch> made_;
    };

    static void copy_bytes(void* to, detail::any_buffer const& from);
    void use_own_threads();
    bool is_behind() const { return stamps_ && stamps_->is_behind(); }
    // A step of all elements, of rows [first, last).
    void run_all_rows(std::size_t first, std::size_t last) const noexcept;
    // f(first, last) for parts of the rows, on the threads of an update.
    template <class F> void for_each_row(F const& f) {
        std::size_t const bytes = size() * bytes_per_element(), parts = threads_ ? threads_->small_parts_for(bytes) : 1;
        auto const run_part = [&](std::size_t p) { f(p * rows_ / parts, (p + 1) * rows_ / parts); };
        if (parts < 2) run_part(0);
        else threads_->run(parts, task(run_part, bytes));
    }
    // With the scale that holds the norm of this gradient alone to its limit.
    step_options clipped(step_options options);
    bool has_rows_of_their_own() const { return updater_.facts().is_row_wise && rows_ > 1 && width_ > 1; }

    void make_memory(std::size_t n);
    void begin();

    void require_rows(char const* call) const;
    void require_trained(char const* call) const;
    void next_step(step_options options, member_options const& own);
    void require_average(char const* call) const;
    static std::size_t bytes_of(any_span const& x) { return x.size * size_of(x.type); }
    void require_room(any_span const& out, scalar type, std::size_t size, char const* call) const;
    // Throws unless it is `count` elements, aligned, and apart from what is written.
    any_span checked_gradient(any_span const& given, std::size_t count, step_options const& options) const;
    // The same of a step of this parameter alone: the gradient is zeroed if that was asked for.
    std::optional<std::size_t> skip_nonfinite(step_options const& options) const;

    std::byte* value_at(std::size_t i) const;
    void const* gradient_at(std::size_t i) const;
    runtime::erased_tensor tensor(void const* gradient) const;
    // Row r as a tensor of its own.
    runtime::erased_tensor row_tensor(std::size_t r, void const* gradient) const;

    // The ids of rows, checked.
    std::span<std::int64_t const> ids_of(any_span const& given, char const* call);
    void prefetch(std::size_t row) const noexcept;
    // Rows [first, last) of a batch; `sum` has room for a row.
    struct batch;
    void run_rows(batch const& of, std::size_t first, std::size_t last, void* sum) const noexcept;
    void read_average(scalar type, void* out) const;

    any_updater updater_;
    parameter_options options_;
    std::size_t rows_, width_;
    std::uint64_t seed_ = 0;
    detail::norm_limit limit_ = {};
    detail::any_buffer values_, trained_; // trained_: while the average is applied
    std::array<detail::any_buffer, runtime::most_slots> state_;
    std::optional<detail::stamped_rows> stamps_;         // where rows catch up
    bool average_is_applied_ = false, is_taken_ = false; // is_taken_: by update_all
    std::optional<detail::executor_reference> threads_;
    any_span gradient_; // of this update, like the following members
    gradstep::clock before_;
    detail::any_halves halves_;
    std::optional<std::vector<std::uint64_t>> shape_; // that was set
    workspace memory_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/any_parameter.ipp>
#endif
