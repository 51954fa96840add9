#pragma once
#include <gradstep/rows/numbered_rows.hpp>
#include <gradstep/rows/row_updater.hpp>
#include <gradstep/saved/detail/parameter_rows.hpp>
#include <gradstep/saved/table.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A parameter with num_rows rows of width elements, where each step updates only the rows in its
/// batch. Examples are an embedding table, and the weights of hashed features. It owns values,
/// state, stamps and history, in its backend's memory.
///
///     gs::table embeddings{optimizer, num_rows, width, gs::exact{},
///                          {.initial = gs::uniform{-0.05, 0.05, seed}}};
///     embeddings.update(ids, gradient_rows);
///
/// The cost of a step is ids.size() x width, for any num_rows. The catch-up policy defines how a
/// row accounts for the steps it missed: `touch_only` (the default), `exact`, `replay{max_steps}`.
/// Reads return rows with all steps applied.
///
/// Bytes per row: width x (parameter + state), 4 for a stamp unless touch_only, 4 with row_steps.
/// In addition, the history of at most max_history steps (rows/table_options.hpp), each
/// `history_bytes` long.
///
/// `update`, `values`, `flush`, `restore` and all changes of rows (`grow`, `append`, `keep`,
/// `permute`, `reset`) are not thread-safe. `row` and `rows` can run concurrently with each other.
/// For concurrent updates use `gs::striped`.
template <class Updater, class CatchUp> class table : public numbered_rows<table<Updater, CatchUp>> {
    using base = numbered_rows<table>;
    using base::core_;
    using rows_type = row_updater<Updater, CatchUp>;
    using kernels = detail::table_kernels_of<Updater, CatchUp>;
    using traits = typename Updater::traits;
    using backend = typename Updater::backend_type;

public:
    /// The types of the optimizer (`updater_type`), of a value (`storage`) and of an element of the
    /// state (`state_type`) in memory. `on_host`: whether this memory is host memory.
    using updater_type = Updater;
    using storage = typename traits::storage;
    using state_type = typename traits::state;
    static constexpr bool on_host = std::is_same_v<typename backend::memory_space, host_memory>;
    /// The bytes of the history per step, as in `row_updater`.
    static constexpr std::size_t history_bytes = rows_type::history_bytes;

    /// Copies the policies of `optimizer`; the clock starts at 0. Throws value_error or size_error
    /// for numbers out of range, memory_error if the rows do not fit into memory.
    template <std::integral Rows, std::integral Width>
    table(Updater const& optimizer, Rows num_rows, Width width, CatchUp catch_up = {}, table_options options = {})
        : base{std::make_unique<kernels>(optimizer, catch_up), detail::counted("num_rows", num_rows, 0),
               static_cast<std::size_t>(detail::counted("width", width, 1)), options} {}

    using base::average_is_applied, base::require_trained, base::restore;

    /// Updates the rows in `ids` by one step (row_updater::update). gradient_rows contains
    /// ids.size() x width elements. Instead of ids you can pass visible rows of a dense gradient
    /// of num_rows() x width elements: update(gs::visible{mask}, gradient).
    template <class Ids, class Gradients>
    void update(Ids&& ids, Gradients&& gradient_rows, step_options const& options = {}) {
        core_.require_trained("update");
        if constexpr (std::same_as<std::remove_cvref_t<Ids>, visible>)
            detail::update_visible<Updater>(core_.rows(), core_.place(), ids, gradient_rows, options);
        else detail::update_rows<Updater>(core_.rows(), core_.place(), ids, gradient_rows, options);
    }
    /// The same with pooled gradients (embedding bags): row b of `bag_rows` is the gradient of
    /// every id of bag b (row_updater::update), times the weight of the id if `bags` has weights.
    template <class Ids, class Offsets, class Gradients>
    requires detail::contiguous_buffer<Gradients>
    void update(Ids&& ids, Offsets&& offsets, Gradients&& bag_rows, step_options const& options = {},
                bag_options const& bags = {}) {
        core_.require_trained("update");
        detail::update_bags<Updater>(core_.rows(), core_.place(), ids, offsets, bag_rows, options, bags);
    }

    /// Returns a copy of row `id` with all steps applied. Throws value_error for an id out of
    /// range.
    std::vector<storage> row(std::int64_t id) const requires on_host {
        std::vector<storage> out(this->width());
        row(id, out);
        return out;
    }
    /// The same, written to the caller's memory of `width` elements.
    template <class Out> void row(std::int64_t id, Out&& out) const requires on_host {
        detail::require_lasting<Out>();
        rows(std::span<std::int64_t const>(&id, 1), out);
    }
    /// Writes copies of several rows with all steps applied, in the order of `ids`, to the caller's
    /// memory of ids.size() x width elements.
    template <class Ids, class Out> void rows(Ids&& ids, Out&& out) const {
        detail::require_lasting<Out>();
        detail::read_rows<Updater, storage>(core_.rows(), core_.place(), ids, out,
                                            [&](auto which, auto* to) { core_.read(which, to); });
    }

    /// Writes the pooled rows of bags with all steps applied (embedding bags), `width` elements for
    /// each bag: the sum of its rows, or as bag_options say. A bag without ids gives 0, and padding
    /// counts as absent. It does not copy the rows.
    template <class Ids, class Offsets, class Out>
    void bags(Ids&& ids, Offsets&& offsets, Out&& out, bag_options const& bags = {}) const {
        detail::require_lasting<Out>();
        core_.read_bags(detail::pooled_rows_of<Updater>(core_.rows(), core_.place(), ids, offsets, out, bags));
    }

    /// Returns a copy of the average of row `id` that the rule keeps (`averaged`). It has the type
    /// of the state, and is not rounded to storage. The average of an inactive row includes its
    /// pending steps, except under touch_only. Does not compile if the rule keeps no average.
    /// Throws value_error for an id out of range.
    std::vector<state_type> average(std::int64_t id) const requires on_host {
        std::vector<state_type> out(this->width());
        averages(std::span<std::int64_t const>(&id, 1), out);
        return out;
    }
    /// The same for several rows, in the order of `ids`, written to the caller's memory of
    /// ids.size() x width elements.
    template <class Ids, class Out> void averages(Ids&& ids, Out&& out) const {
        detail::require_lasting<Out>();
        require_trained("averages");
        if constexpr (detail::require_average<typename Updater::rule_type>())
            detail::read_rows<Updater, state_type>(core_.rows(), core_.place(), ids, out,
                                                   [&](auto which, auto* to) { core_.read_averages(which, to); });
    }
    /// Replaces the values of all rows by their averages, rounded to the type of the values, until
    /// the returned object is destroyed or you call `restore()`. Readers see the averages. It
    /// allocates memory for a copy of the values. Meanwhile you cannot call `update`, or any other
    /// function that uses the trained rows (`flush`, `memory`, `grow`, ...). Throws sequence_error
    /// if averages are applied already, and memory_error; the rows are then unchanged.
    [[nodiscard]] applied_average<table> apply_average() {
        require_trained("apply_average");
        if constexpr (detail::require_average<typename Updater::rule_type>()) core_.apply_average();
        return applied_average<table>(*this);
    }
    /// Returns all values, row by row, after a flush. They are valid as long as `memory()` is. If
    /// averages are applied, it returns the averages.
    std::span<storage const> values() requires on_host {
        if (!average_is_applied()) core_.flush();
        return joined().values;
    }
    /// Flushes, and copies all values to host memory of num_rows x width elements. Waits for a
    /// device.
    template <class Buffer> void copy_to(Buffer&& host) {
        detail::require_lasting<Buffer>();
        auto const to = detail::as_span<storage, host_memory>(host);
        if (to.size() != this->num_rows() * this->width())
            detail::fail<size_error>({"copy_to"}, {"the buffer has ", to.size(), " elements"},
                                     {this->num_rows() * this->width()});
        core_.copy_to(reinterpret_cast<std::byte*>(to.data()));
    }

    /// Adds rows with these values behind the others, as `grow` does. They have the state of step 0
    /// and are up to date: earlier steps do not apply to them. Throws size_error if the number of
    /// values is not a multiple of the width, buffer_error for null memory, and memory_error. The
    /// table is then unchanged.
    template <class Values> void append(Values const& values) {
        require_trained("append");
        auto const added =
            detail::values_on_host<storage, typename backend::memory_space>(optimizer().backend(), values);
        core_.append(std::data(added), std::size(added));
    }
    /// Resets the rows in `ids`: they get initial values and the state of step 0, and are up to
    /// date.
    template <class Ids> void reset(Ids&& ids) {
        require_trained("reset");
        core_.rows().reset(core_.place(), detail::ids_of<Updater>(ids));
    }
    /// Sets the values of the rows in `ids`, for example to pretrained ones
    /// (row_updater::set_rows).
    template <class Ids, class Values> void set_rows(Ids&& ids, Values const& values) {
        require_trained("set_rows");
        static_assert(on_host,
                      "gradstep: set_rows: the rows are in memory of a device; expected a backend of the host");
        auto const which = detail::ids_of<Updater>(ids);
        auto const from = detail::as_span<storage const, host_memory>(values);
        core_.rows().set_rows(core_.place(), which, {from.data(), from.size()});
    }

    /// The policies.
    Updater const& optimizer() const { return static_cast<kernels const&>(core_.kernels()).updater; }

    /// Returns the memory of all rows in order, without applying pending steps, for checkpoints and
    /// shards: values, state, stamps and touches. With `progress()` it is the complete table. The
    /// rows of a table that grew are in several segments. This function, `values()` and `state()`
    /// join them by copying the table, and throw memory_error if memory does not suffice. The
    /// result is valid until the table grows or its rows are joined again.
    row_memory<Updater> memory() {
        require_trained("memory");
        return joined();
    }
    /// The number of segments. Segment 0 begins with row 0. Each other segment begins with the row
    /// after the previous segment. A table that did not grow has one segment.
    std::size_t segments() const { return core_.segments(); }
    /// Returns the memory of one of `segments()`, without joining them.
    row_memory<Updater> memory(std::size_t segment) {
        require_trained("memory");
        return detail::memory_of<Updater>(core_.segment(segment));
    }
    /// Returns the rows of all segments, for functions of a row_updater.
    row_memory<Updater> binding() const {
        row_memory<Updater> out;
        if (segments() == 1) return detail::memory_of<Updater>(core_.segment(0));
        out.index = &core_.place();
        return out;
    }
    /// The progress of the run, for a checkpoint (row_progress).
    row_progress progress() const { return core_.rows().progress(); }
    /// Restores the `progress()` of a table. Restore the content of memory() first.
    void restore(row_progress const& from) {
        require_trained("restore");
        core_.rows().restore(core_.place(), from);
    }

    /// Writes a checkpoint to a safetensors file (docs/how_to/checkpoints.md). It contains the rows
    /// with pending steps, state, stamps and touches; clock, history and lap; the initial values of
    /// new rows; and the policies. A header-only program must include gradstep/checkpoint.hpp.
    /// An existing file is replaced when the new one is complete and on the disk. Rows are not
    /// copied, except rows on a device, which are copied in chunks. Throws io_error, sequence_error
    /// if averages have replaced the values, and value_error for an element that the format does
    /// not support.
    void save(std::string const& file) const { detail::save_file(file, *this); }
    /// Resumes from a file of `save`, bit for bit. The saved table must have the same width,
    /// element, rule and catch-up policy. If it has more rows, this table grows; if it has fewer,
    /// the call throws. This table keeps its own hyperparameters. The initial values of new rows
    /// and the length of the history come from the file.
    ///
    /// Throws the errors of `save`, memory_error, and value_error or size_error for another kind of
    /// file, with the first difference. The table is then unchanged. If the system or a device
    /// fails to read in the middle of the data, some rows are loaded and others are not.
    void load(std::string const& file) { detail::load_file(file, *this); }
    /// Loads the parts that `options` select (gradstep/saved/load_options.hpp); the name is
    /// "values". Returns a load_report. Throws the same errors. With another name for "values" it
    /// loads one parameter from a file of many.
    auto load(std::string const& file, load_options const& options) { return detail::load_file(file, *this, options); }

    /// The number of pending steps of row `id`, for code that keeps its own data for each row
    /// (row_updater).
    std::uint64_t pending_steps(std::int64_t id) const requires on_host {
        detail::check_ids(std::span<std::int64_t const>(&id, 1), this->num_rows(), std::nullopt);
        return core_.rows().pending_steps(core_.place(), static_cast<std::uint64_t>(id));
    }
    /// The rows [first, second) that the next update catches up in addition to its own rows, if
    /// they have more than `max_row_age()` pending steps.
    std::pair<std::uint64_t, std::uint64_t> stale_rows() const { return core_.rows().stale_rows(); }
    /// The number of pending steps beyond which the next update catches up a row of `stale_rows()`.
    std::uint64_t max_row_age() const { return core_.rows().spared_steps(); }

    /// A state slot by its name, without applying pending steps. Joins the rows of a table that
    /// grew, as `memory()` does.
    template <fixed_string Name> std::span<state_type const> state() requires on_host {
        return memory().state[slot_of<Name>()];
    }
    /// The same for a const table with one segment. Throws value_error if it has several.
    template <fixed_string Name> std::span<state_type const> state() const requires on_host {
        if (segments() != 1)
            detail::fail<value_error>({"state"},
                                      {"the rows of this table, which is const, lie in ", segments(), " segments"},
                                      {"1, as after memory()"});
        return detail::memory_of<Updater>(core_.segment(0)).state[slot_of<Name>()];
    }

private:
    template <fixed_string Name> static constexpr std::size_t slot_of() {
        constexpr std::size_t i = detail::slot_named<Updater>(Name.view());
        static_assert(
            i < Updater::slots,
            "gradstep: state: the updater has no state slot of this name; expected one of the rule's `state_names`");
        return i;
    }
    row_memory<Updater> joined() { return detail::memory_of<Updater>(core_.joined()); }
};
template <class Updater, std::integral Rows, std::integral Width>
table(Updater const&, Rows, Width) -> table<Updater, touch_only>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
table(Updater const&, Rows, Width, CatchUp) -> table<Updater, CatchUp>;
template <class Updater, std::integral Rows, std::integral Width, class CatchUp>
table(Updater const&, Rows, Width, CatchUp, table_options) -> table<Updater, CatchUp>;
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
struct no_catch_up {};
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
// Rejects options in the position of the catch-up policy with one sentence instead of a list of
// constructors.
template <class Updater> class table<Updater, detail::no_catch_up> {
public:
    template <class Rows, class Width> table(Updater const&, Rows, Width, table_options) {
        static_assert(sizeof(Updater) == 0,
                      "gradstep: table: the options come before a catch-up policy; expected gs::table{optimizer, "
                      "num_rows, width, gs::touch_only{}, {...}}, or with gs::exact{} or gs::replay{...}");
    }
};
template <class Updater, std::integral Rows, std::integral Width>
table(Updater const&, Rows, Width, table_options) -> table<Updater, detail::no_catch_up>;
} // namespace gradstep::inline GRADSTEP_ISA
