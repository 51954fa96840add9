#pragma once
#include <gradstep/rows/row_memory.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// Updates rows of memory that you own, as `updater` does for dense tensors. It contains policies,
/// clock and history, but no rows. A `table` owns its rows, and does the same.
///
///     gs::row_updater rows{optimizer, num_rows, width, gs::exact{},
///                          {.duplicates = gs::duplicates::sum}};
///     auto memory = rows.memory(values, n, stamps);    // a span per state slot, then stamps
///     rows.initialize(memory);                         // state and stamps before the first step
///     rows.update(memory, ids, gradient_rows);
///
/// `update`, `flush` and `restore` are not thread-safe; reads can run concurrently with each other.
/// For concurrent updates use `gs::striped{rows, memory}`. Under touch_only, several threads can
/// also have a row_updater each over the same memory, as long as no row is in two threads at once.
template <class Updater, class CatchUp> class row_updater {
    using kernels = detail::table_kernels_of<Updater, CatchUp>;
    using history_type = typename kernels::history_type;
    using bound = detail::bound_rows<Updater>;
    using traits = typename Updater::traits;

public:
    /// The types of the optimizer (`updater_type`), of a value in memory (`storage`), and of the
    /// rows (`memory_type`).
    using updater_type = Updater;
    using storage = typename traits::storage;
    using memory_type = row_memory<Updater>;

    /// Whether rows have stamps, 4 bytes each: with every policy except touch_only.
    static constexpr bool has_stamps = kernels::has_stamps;
    /// The number of doubles that a checkpoint keeps per step (`history_numbers`), and the bytes of
    /// history in memory per step (`history_bytes`). If both are 0, `has_history` is false.
    static constexpr std::size_t history_numbers = history_type::numbers_per_step,
                                 history_bytes = history_type::bytes_per_step;
    static constexpr bool has_history = history_numbers != 0;
    /// Whether catching up reads the history again, so that no other thread can write to it
    /// meanwhile.
    static constexpr bool plans_read_history = kernels::form == detail::catch_up_form::steps;

    /// Copies the policies of `optimizer`; the clock starts at 0. Throws value_error for a width of
    /// 0, negative counts and options out of range, memory_error if the history does not fit into
    /// memory.
    template <std::integral Rows, std::integral Width>
    row_updater(Updater const& optimizer, Rows num_rows, Width width, CatchUp catch_up = {}, table_options options = {})
        : core_{std::make_unique<kernels>(optimizer, catch_up), detail::counted("num_rows", num_rows, 0),
                static_cast<std::size_t>(detail::counted("width", width, 1)), options} {}

    /// The number of rows, `num_rows()`; the elements of a row, `width()`; the `clock()`; the
    /// policies, `optimizer()`; and the `options()`.
    std::uint64_t num_rows() const { return core_.num_rows(); }
    std::size_t width() const { return core_.width(); }
    gradstep::clock clock() const { return core_.clock(); }
    Updater const& optimizer() const { return static_cast<kernels const&>(core_.kernels()).updater; }
    table_options const& options() const { return core_.options; }
    /// The number of steps that the history keeps.
    std::uint64_t history_capacity() const { return core_.history_capacity(); }
    /// The number of gradient rows since construction that were skipped because they were not
    /// finite (table_options.on_nonfinite). For a pooled gradient, each id counts.
    std::uint64_t gradients_left_out() const { return core_.left_out(); }

    /// Returns your memory in the form that the functions below use. Pass the values (num_rows x
    /// width), and one buffer for each state slot: num_rows long if the rule keeps one number per
    /// row, else num_rows x width. Then pass stamps if has_stamps, and touches with row_steps (both
    /// uint32, num_rows). Throws size_error or buffer_error. A wrong number of buffers does not
    /// compile.
    template <class Values, class... Buffers> memory_type memory(Values&& values, Buffers&&... buffers) const {
        detail::require_lasting<Values, Buffers...>();
        constexpr std::size_t least = Updater::slots + has_stamps;
        static_assert(sizeof...(Buffers) == least || sizeof...(Buffers) == least + 1,
                      "gradstep: row_updater::memory: the number of buffers is wrong; expected values, one buffer for "
                      "each state slot of the rule in its order, the master copy if the element keeps one, stamps if "
                      "the catch-up policy has them, and touches with row_steps");
        auto const out = detail::row_binder<Updater>(width(), has_stamps)(values, buffers...);
        bound const rows(out, core_);
        core_.check(rows.place());
        detail::require_apart(rows.place().segments[0]);
        return out;
    }

    /// Sets state, stamps and touches to their values before the first step, and the master copy to
    /// the values. The values do not change.
    void initialize(memory_type const& rows) const {
        core_.begin_rows(checked(bound(rows, core_)), nullptr, 0, num_rows(), false);
    }

    /// Increases the number of rows. The caller's memory must contain them; then
    /// `initialize(memory, first)` begins them. The history grows with the rows unless
    /// options().max_history is set, and is copied once. A step then costs the same as with a table
    /// that had this size from the start. Throws value_error if the number is less than the current
    /// number, and memory_error if memory does not suffice. Nothing has changed then.
    template <std::integral Rows> void grow(Rows num_rows) {
        std::uint64_t const rows = detail::counted("num_rows", num_rows, core_.num_rows());
        core_.check_count(rows);
        core_.grow(rows);
    }
    /// The same as `initialize` for the rows from `first` on. With new_rows::since_the_start they
    /// have caught up on all steps so far. Under `exact` with factors this always works. With a
    /// linear rule and under `replay` it works as long as the history contains all steps; otherwise
    /// it throws value_error before anything is written. Under `touch_only` there are no pending
    /// steps.
    void initialize(memory_type const& rows, std::uint64_t first, new_rows begin = new_rows::as_of_now) {
        bound const its(rows, core_);
        detail::row_place const place = checked(its);
        if (first > num_rows())
            detail::fail<value_error>({"first"}, {first, " is out of range"}, {"at most ", num_rows()});
        bool const catches_up = core_.missed_all_steps(begin);
        core_.begin_rows(place, nullptr, first, num_rows(), catches_up);
        if (catches_up) core_.catch_up_since_start(place, first, num_rows());
    }

    /// Resets the rows in `ids`. They get the values that `options().initial` defines (zero if it
    /// was a container) and the state of step 0, and are up to date. Throws value_error for an id
    /// out of range, before anything is written.
    template <class Ids> void reset(memory_type const& rows, Ids&& ids) const {
        auto const which = detail::ids_of<Updater>(ids);
        core_.reset(checked(bound(rows, core_)), which);
    }

    /// Sets the values of the rows in `ids`, for example to pretrained ones: `values` contains
    /// ids.size() x width elements. Pending steps of these rows are applied first. Their state
    /// follows as in `updater::weights_set`: moments and averages of earlier steps stay. Set a row
    /// by this function and not through its memory, whose pending steps are still to come. For host
    /// memory. Throws value_error for an id out of range, size_error and buffer_error, before
    /// anything is written.
    template <class Ids, class Values> void set_rows(memory_type const& rows, Ids&& ids, Values const& values) const {
        static_assert(std::is_same_v<typename Updater::backend_type::memory_space, host_memory>,
                      "gradstep: set_rows: the rows are in memory of a device; expected a backend of the host");
        auto const which = detail::ids_of<Updater>(ids);
        auto const from = detail::as_span<storage const, host_memory>(values);
        core_.set_rows(checked(bound(rows, core_)), which, {from.data(), from.size()});
    }

    /// Updates the rows in `ids` by one step. `gradient_rows` contains ids.size() x width elements.
    /// `options` are as in `updater::next_step`. For each row, the step first catches up on pending
    /// steps. It then computes gradient_scale * (the sum or mean of the row's gradients), and
    /// applies the regularizers, the rule, `proximal` and `after_step`, and rounding.
    ///
    /// Throws value_error for an id out of range or a duplicate under `unique`, size_error,
    /// buffer_error, and the errors of next_step. It throws before it writes anything, and the
    /// clock does not advance. If your thread pool throws, parts of the step can have happened: the
    /// clock then counts the step.
    template <class Ids, class Gradients>
    void update(memory_type const& rows, Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        bound const its(rows, core_);
        detail::update_rows<Updater>(core_, checked(its), ids, gradient_rows, options);
    }

    /// The same with pooled gradients (embedding bags): row b of `bag_rows` is the gradient of
    /// every id of bag b. Bag b contains ids[offsets[b]] to ids[offsets[b + 1] - 1], and the last
    /// bag ends with the ids. The last offset can be the number of ids.
    /// `bags` has weights of the ids, and the mean (bag_options).
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(memory_type const& rows, Ids&& ids, Offsets&& offsets, Gradients&& bag_rows,
                step_options const& options = {}, bag_options const& bags = {}) {
        bound const its(rows, core_);
        detail::update_bags<Updater>(core_, checked(its), ids, offsets, bag_rows, options, bags);
    }

    /// The same for the rows of a mask. The gradient is dense, num_rows x width elements, and only
    /// its visible rows are read. The result is the same bit for bit as `update` with their ids and
    /// their gradients, without a copy. Not for memory of a device. Throws size_error for a mask of
    /// another length.
    template <class Visible, class Gradients>
    requires std::same_as<std::remove_cvref_t<Visible>, visible>
    void update(memory_type const& rows, Visible&& seen, Gradients&& gradient, step_options const& options = {}) {
        bound const its(rows, core_);
        detail::update_visible<Updater>(core_, checked(its), seen, gradient, options);
    }

    /// Copies rows with all steps applied, in the order of `ids`. `out` contains ids.size() x width
    /// elements. It does not change the rows.
    template <class Ids, class Out> void read(memory_type const& rows, Ids&& ids, Out&& out) const {
        detail::require_lasting<Out>();
        bound const its(rows, core_);
        detail::row_place const place = checked(its);
        detail::read_rows<Updater, storage>(core_, place, ids, out,
                                            [&](auto which, auto* to) { core_.read(place, which, to); });
    }
    /// Writes the pooled rows of bags with all steps applied (embedding bags) to the caller's
    /// memory, `width` elements for each bag. It does not copy the rows. A bag without ids gives 0,
    /// and padding (table_options.ignore_id) counts as absent.
    template <class Ids, class Offsets, class Out>
    void read_bags(memory_type const& rows, Ids&& ids, Offsets&& offsets, Out&& out,
                   bag_options const& bags = {}) const {
        detail::require_lasting<Out>();
        bound const its(rows, core_);
        detail::row_place const place = checked(its);
        core_.pool(place, detail::pooled_rows_of<Updater>(core_, place, ids, offsets, out, bags), false);
    }
    /// `read` for the averages that the rule keeps (`averaged`). They have the type of the state,
    /// and are not rounded to storage. The average of an inactive row includes its pending steps,
    /// except under touch_only. Does not compile if the rule keeps no average.
    template <class Ids, class Out> void read_averages(memory_type const& rows, Ids&& ids, Out&& out) const {
        if constexpr (detail::require_average<typename Updater::rule_type>()) {
            detail::require_lasting<Out>();
            bound const its(rows, core_);
            detail::row_place const place = checked(its);
            detail::read_rows<Updater, typename traits::state>(
                core_, place, ids, out, [&](auto which, auto* to) { core_.read(place, which, to, true); });
        }
    }

    /// Applies the pending steps of every row, in parallel. A second flush changes nothing.
    void flush(memory_type const& rows) { core_.flush(checked(bound(rows, core_))); }

    /// The progress of the run, for a checkpoint (row_progress).
    row_progress progress() const { return core_.progress(); }
    /// Restores the `progress()` of a run. The memory must be as it was then, with or without
    /// pending steps. Throws value_error, size_error or memory_error, before anything changes, for
    /// numbers or stamps that no run of a table with this size and these policies can have
    /// (row_progress).
    void restore(memory_type const& rows, row_progress const& from) {
        core_.restore(checked(bound(rows, core_)), from);
    }

    /// The number of pending steps of row `id`. If you keep your own average of the row, you need
    /// it when the row is updated again. It is modulo 2^32 if the row has only a stamp (no
    /// regularizer shrinks the row, and no momentum moves it).
    std::uint64_t pending_steps(memory_type const& rows, std::int64_t id) const requires has_stamps {
        detail::check_ids(std::span<std::int64_t const>(&id, 1), num_rows(), std::nullopt);
        return core_.pending_steps(checked(bound(rows, core_)), static_cast<std::uint64_t>(id));
    }
    /// The rows [first, second) that the next update catches up before its own rows, if they have
    /// more than `max_row_age()` pending steps. This keeps stamps from becoming too old. Code that
    /// keeps its own averages needs these rows too.
    std::pair<std::uint64_t, std::uint64_t> stale_rows() const { return core_.stale_rows(); }
    /// The number of pending steps beyond which the next update catches up a row of `stale_rows()`.
    std::uint64_t max_row_age() const { return core_.spared_steps(); }

    /// The parts of this object, without checks, for gradstep's own code that owns the rows
    /// (`table`).
    detail::row_core& core() { return core_; }
    detail::row_core const& core() const { return core_; }

private:
    // Throws size_error or buffer_error unless the memory has these rows.
    detail::row_place checked(bound const& rows) const {
        core_.check(rows.place());
        return rows.place();
    }

    detail::row_core core_;
};
template <class Updater, std::integral Rows, std::integral Width>
row_updater(Updater const&, Rows, Width) -> row_updater<Updater, touch_only>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
row_updater(Updater const&, Rows, Width, CatchUp) -> row_updater<Updater, CatchUp>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
row_updater(Updater const&, Rows, Width, CatchUp, table_options) -> row_updater<Updater, CatchUp>;
} // namespace gradstep::inline GRADSTEP_ISA
