#pragma once
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/rows/bag_options.hpp>
#include <gradstep/rows/detail/bag_pool.hpp>
#include <gradstep/rows/detail/refresh_cursor.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Throws value_error unless a count is in [least, 2^63).
template <std::integral Count> std::uint64_t counted(char const* name, Count count, std::uint64_t least) {
    bool const too_large = std::cmp_greater(count, std::numeric_limits<std::int64_t>::max());
    if (too_large || std::cmp_less(count, least))
        fail<value_error>({name}, {count, " is out of range"},
                          {too_large ? "< 2^63" : ">= ", too_large ? text_arg("") : text_arg(least)});
    return static_cast<std::uint64_t>(count);
}

// The values or gradients that a call gets, in memory of the backend.
struct given_values {
    void const* data = nullptr;
    std::size_t size = 0; // in elements
    bool is_writable = false;
};

// A history that can be installed, and the sweep at its position.
struct resumed_history {
    std::unique_ptr<row_history> history;
    std::uint64_t capacity;
    refresh_cursor sweep;
    double rate;
};

// The steps of rows in memory that it does not own: options, clock, history, and the sweep that
// visits every row before the history loses a step that the row needs. row_updater is its interface
// for memory of the user, and table_core has rows of its own.
//
// Invariant: no row has more pending steps than the history keeps.
class row_core {
public:
    // Throws value_error for options out of range, or not for these policies, and memory_error.
    [[gnu::cold]] row_core(std::unique_ptr<table_kernels> kernels, std::uint64_t num_rows, std::size_t width,
                           table_options const& chosen);
    row_core(row_core const& other);
    row_core(row_core&&) = default;
    row_core& operator=(row_core const& other) { return *this = row_core(other); }
    row_core& operator=(row_core&&) = default;

    table_options options;
    kept_columns kept = {};

    table_kernels& kernels() const { return *kernels_; }
    row_facts const& facts() const { return kernels_->facts(); }
    row_call& call() { return *call_; }
    std::uint64_t num_rows() const { return num_rows_; }
    std::size_t width() const { return width_; }
    gradstep::clock clock() const { return kernels_->clock(); }
    std::int64_t step() const { return kernels_->step(); }
    std::uint64_t left_out() const { return left_out_; }
    std::uint64_t history_capacity() const { return capacity_; }
    // The number of pending steps up to which the sweep skips a row.
    std::uint64_t spared_steps() const { return sweep_.steps(); }
    // How many bytes an update of a row moves.
    std::size_t row_bytes() const { return facts().bytes_per_element * width_; }
    // The columns of these rows, without memory.
    [[gnu::cold]] std::vector<row_column> columns() const;
    // Throws size_error unless so many rows of this width can be counted.
    void check_count(std::uint64_t num_rows) const;
    // Calls f(), which allocates memory for so many rows. Explains a failed allocation.
    template <class F> decltype(auto) with_memory(std::uint64_t rows, F const& f) const {
        auto const refuse = [&](auto const&) {
            refuse_row_memory(rows, width_, facts().storage_bytes + facts().bytes_of_state());
        };
        return rethrow_as<std::length_error>([&] { return rethrow_as<std::bad_alloc>(f, refuse); }, refuse);
    }

    // The checks of a call, before anything is written: that the rows are in this memory; the
    // gradients of `count` rows, and `count` copies of rows, which must not overlap it.
    void check(row_place const& rows) const;
    void check_gradients(row_place const& rows, given_values const& gradients, std::size_t count, char const* what,
                         step_options const& how) const;
    void check_room(row_place const& rows, extent const& out, std::size_t elements, std::size_t count,
                    char const* what = "ids") const;
    // The bags of a call with so many ids; and of a read of pooled rows. The ids are not checked.
    given_bags bags_of(row_place const& rows, given_ids offsets, bag_options const& how, std::size_t ids) const;
    pooled_call pooled(row_place const& rows, given_ids names, std::optional<std::int64_t> padding, given_ids offsets,
                       bag_options const& how, extent const& out) const;
    void check_ids(pooled_call const& of) const;

    // The rows [first, second) that the next step visits besides its own.
    std::pair<std::uint64_t, std::uint64_t> stale_rows() const;
    // A whole update.
    void apply(row_place const& rows, given_ids ids, row_sources const& sources, given_values const& gradients,
               step_options const& how);
    // Its parts, for an owner with steps of its own: groups the ids, and allocates all memory;
    // prepares the next step, which throws before anything has changed; begins the step, which
    // inactive rows miss from then on, and if it `sweeps`, catches up the rows that are due on the
    // steps before it; and updates the rows that were grouped.
    void group(row_place const& rows, given_ids ids, row_sources const& sources, given_values const& gradients);
    void prepare(step_options const& how);
    void begin(row_place const& rows, bool sweeps);
    void update(row_place const& rows, given_values const& gradients);
    // Sets gradients to zero, if the options ask for it.
    void zero(given_values const& gradients, step_options const& how) const;
    // The first phase of a concurrent update, for one thread at a time: everything that can throw,
    // and the pending steps of the rows that are due and of the batch. From now on, inactive rows
    // miss the step.
    void begin(row_place const& rows, concurrent_call& call, given_values const& gradients, step_options const& how,
               std::uint64_t first_due, std::uint64_t last_due, std::byte* plans);

    // Copies the rows that ids name to `out`, or their averages.
    void read(row_place const& rows, given_ids ids, void* out, bool averages = false, bool as_they_are = false) const;
    // Writes pooled rows. `absent`: the values of ids that are negative, by key.
    void pool(row_place const& rows, pooled_call const& of, bool as_they_are,
              initial_values const* absent = nullptr) const;
    // Applies all pending steps of all rows.
    void flush(row_place const& rows) { catch_up(rows, 0, num_rows_, {step()}); }
    void catch_up(row_place const& rows, std::uint64_t first, std::uint64_t last, row_target const& to);
    std::uint32_t pending_steps(row_place const& rows, std::uint64_t id) const;

    // Rows [first, last) before their first step. The values do not change if `initial` is null.
    void begin_rows(row_place const& rows, initial_values const* initial, std::uint64_t first, std::uint64_t last,
                    bool catches_up) const;
    // The same in zeroed memory: zeros are not written, so that a large table uses pages only for
    // active rows.
    [[gnu::cold]] void begin_zeroed_rows(row_place const& rows, initial_values const& initial, std::uint64_t first,
                                         std::uint64_t last, bool catches_up) const;
    void reset(row_place const& rows, given_ids ids) const;
    void set_rows(row_place const& rows, given_ids ids, given_values const& values) const;
    // The initial values of rows that are added after construction.
    initial_values later_rows() const { return options.initial.is_container() ? initial_values{} : options.initial; }
    // Whether new rows have pending steps. Throws value_error if the history does not contain all
    // of them.
    bool missed_all_steps(new_rows begin) const;
    // Catches up rows [first, last), which are as before their first step.
    void catch_up_since_start(row_place const& rows, std::uint64_t first, std::uint64_t last);

    // Extends the history to the capacity for this number of rows. Throws memory_error, and nothing
    // has changed.
    void grow(std::uint64_t rows);
    // Removes the rows from `rows` on.
    void shrink(std::uint64_t rows) noexcept;
    // Other rows, none of which has pending steps. The history stays as long as it is.
    void renumber(std::uint64_t rows) noexcept;
    // Before rows move or are removed: begins a new lap of the sweep, since the positions of the
    // current lap and its pace belong to the rows before. Rows that would be too old for the
    // history when the new lap visits them catch up. Throws what the application's pool throws;
    // rows that have caught up stay so.
    void begin_lap(row_place const& rows);
    // Moves rows in host memory: row i becomes what was row order.values[i], with its state and its
    // pending steps.
    void rearrange(row_place const& rows, row_order&& order);

    // Sets the clock. Throws value_error for negative counts, and sequence_error with a history;
    // `check_seek` only checks.
    void seek(gradstep::clock const& at);
    void check_seek(gradstep::clock const& at) const;
    // For checkpoints. Throws value_error or size_error unless the numbers, and a history of this
    // size, belong to a table with these policies and this number of rows.
    row_progress progress() const { return progress(clock()); }
    row_progress progress(gradstep::clock const& at) const;
    void require_own_history(row_progress const& from, std::uint64_t rows, std::uint64_t history_size) const;
    // The history of a checkpoint, validated.
    resumed_history history_at(row_progress const& from, refresh_cursor const& at) const;
    // Continues from a validated checkpoint.
    void resume(row_progress const& from, std::uint64_t rows, resumed_history&& history) noexcept;
    // The same for rows in this memory, which is as it was then.
    void restore(row_place const& rows, row_progress const& from);

private:
    bool has_history() const { return facts().has_history(); }
    std::uint64_t capacity_for(std::uint64_t rows) const;
    std::unique_ptr<row_history> history_with(std::uint64_t capacity, std::int64_t step,
                                              std::span<double const> numbers, double rate, bool checks) const;
    // Prepares the next step, and records it for inactive rows. In between it calls f(), which can
    // throw; the clock is then as before.
    template <class F> void take_step(step_options const& how, F const& f);
    // From now on, inactive rows miss the prepared step.
    void record();
    row_target sweep_to(std::int64_t step) const { return {step, static_cast<std::uint32_t>(sweep_.steps())}; }

    std::unique_ptr<table_kernels> kernels_;
    std::uint64_t num_rows_;
    std::size_t width_;
    std::uint64_t capacity_; // of the history, in steps
    refresh_cursor sweep_;
    double rate_ = 0;            // of the last step
    std::uint64_t left_out_ = 0; // gradients that were not finite
    std::unique_ptr<row_call> call_;
};

// The addresses of row `id` in each column, in host memory.
void find_row(row_place const& rows, std::uint64_t id, std::byte** to);
// The address of its values.
std::byte* find_values(row_place const& rows, std::uint64_t id);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/rows/detail/row_core.ipp>
#endif
