#pragma once
#include <gradstep/memory/executor.hpp>
#include <gradstep/rows/detail/row_segments.hpp>
#include <gradstep/rows/row_progress.hpp>
#include <gradstep/rows/table_options.hpp>
#include <gradstep/step/state_visitor.hpp>
#include <gradstep/step/step_options.hpp>

// What of a table depends on the types of its updater and catch-up policy, behind virtual
// functions. The owners of rows (row_core, table_core, keyed_core, row_turns) are compiled once:
// they handle memory, checks, the sweep, keys and threads.
namespace gradstep::detail::inline GRADSTEP_ABI {
// The ids or offsets of a call, of one of the types of row_id.
class given_ids {
public:
    given_ids() = default;
    given_ids(std::span<std::int32_t const> ids) : data_(ids.data()), size_(ids.size()), is_(kind::int32) {}
    given_ids(std::span<std::int64_t const> ids) : data_(ids.data()), size_(ids.size()), is_(kind::int64) {}
    given_ids(std::span<std::uint64_t const> ids) : data_(ids.data()), size_(ids.size()), is_(kind::uint64) {}

    GRADSTEP_HD std::size_t size() const { return size_; }
    // The k-th number; of a negative one its bits.
    GRADSTEP_HD std::uint64_t operator[](std::size_t k) const {
        if (is_ == kind::int32)
            return static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t const*>(data_)[k]});
        return static_cast<std::uint64_t const*>(data_)[k];
    }
    bool is_signed() const { return is_ != kind::uint64; }
    // Calls f with a span of the type.
    template <class F> decltype(auto) visit(F const& f) const {
        if (is_ == kind::int64) return f(std::span(static_cast<std::int64_t const*>(data_), size_));
        return visit_bits(f);
    }
    // The same for numbers that are not negative, with one type for all numbers of 64 bits.
    template <class F> decltype(auto) visit_bits(F const& f) const {
        if (is_ == kind::int32) return f(std::span(static_cast<std::int32_t const*>(data_), size_));
        return f(std::span(static_cast<std::uint64_t const*>(data_), size_));
    }

private:
    enum class kind { int32, int64, uint64 };
    void const* data_ = nullptr;
    std::size_t size_ = 0;
    kind is_ = kind::int64;
};

// The bags of a call with pooled rows.
struct given_bags {
    given_ids offsets;
    void const* weights = nullptr; // one of the compute type for each id; null: 1
    bool mean = false;
};
// Where the ids of a call have their gradients, and what the gradients are multiplied by.
struct row_sources {
    std::uint32_t const* rows = nullptr;  // of the gradients; null: in the order of the ids
    void const* weights = nullptr;        // one of the compute type for each id; null: 1
    std::uint32_t const* sizes = nullptr; // of the bags, if the weights are divided by them

    bool has_factors() const { return weights != nullptr || sizes != nullptr; }
};
// Rows of one bag, or of a part of it: their addresses and weights (null: 1), and the sums so far,
// in the compute type.
struct pooled_rows {
    void const* const* rows;
    void const* weights;
    std::size_t count, width;
    void* sums;
    bool begins;         // with this part: `sums` is not set
    void* out;           // null if the bag goes on; else the sums are written here, as values,
    std::size_t divisor; // divided by this number
};

// Where the rows of a table are. Each segment has the columns of the table, in their order. If
// there are several, kernels find rows by pages of 2^shift rows: `pages` has, for each page, the
// address of its first row in each column, in memory of the backend.
struct row_place {
    std::size_t width = 0;
    std::span<row_columns const> segments = {};
    std::byte* const* pages = nullptr;
    std::uint32_t shift = 0;
};

// Describes the types of a table.
struct row_facts {
    char const *storage_dtype = nullptr, *state_dtype = nullptr;
    char const* const* slot_names = nullptr;
    std::size_t storage_bytes = 0, state_bytes = 0, bytes_per_element = 0; // of a value; of a slot's number; of a step
    std::size_t slots = 0, first_row_slot = 0, row_slots = 0;              // row slots: one number per row
    bool has_stamps = false, on_host = true, is_integral = false, is_stochastic = false, has_master = false,
         keeps_average = false, uses_id = false;
    bool counts_updates = true, guards_rows = true; // what the backend can do
    bool rounds_coarsely = false;                   // values have fewer digits than a step, and there is no master copy
    bool is_replay = false;
    std::size_t weight_bytes = 0; // of a weight in bags, which has the compute type; 0 for integers
    std::size_t plan_bytes = 0;   // of the pending steps of a row, for calls of several threads
    history_facts history = {};
    // Whether rows can catch up if numbers of the regularizer, or of the rule, follow schedules.
    bool follows_numbers = true, follows_numbers_of_rule = true;

    bool has_history() const { return history.any(); }
    std::size_t columns() const { return 1 + slots + columns_beside_state; }
    bool is_row_slot(std::size_t i) const { return i - first_row_slot < row_slots; } // smaller i wrap around
    // The bytes of the state of an element, without row slots.
    std::size_t bytes_of_state() const { return (slots - row_slots) * state_bytes; }
};

// The history of a table (rows/detail/history.hpp).
class row_history {
public:
    virtual ~row_history() = default;
};

// How rows begin: with their state, unless it is set already; `joined`: the last step before they
// join the table, 0 if they will catch up on all steps; and their stamp.
struct row_start {
    bool state;
    std::int64_t joined;
    std::uint32_t last_step;
};
// To which step rows catch up. Rows with at most `skip_up_to` pending steps are skipped.
// `since_start`: all steps are pending, whatever the history still contains.
struct row_target {
    std::int64_t step;
    std::uint32_t skip_up_to = 0;
    bool since_start = false;
};
// How rows are read: with all steps up to `step` applied, unless they are read as they are; their
// averages instead of their values; and the values of ids that are negative: initial values by key.
struct row_reading {
    std::int64_t step;
    bool as_they_are = false, averages = false;
    initial_values const* absent = nullptr;
    std::uint64_t const* keys = nullptr;
};

// The scratch memory and the step of one call that updates rows.
class row_call {
public:
    virtual ~row_call() = default;
    // The sources of the ids of a pooled batch (expand_offsets), in memory of the backend. `names`:
    // the ids, or the keys of their rows, of which `padding` does not count.
    virtual row_sources bags(given_bags const& of, given_ids names, std::optional<std::int64_t> padding,
                             std::size_t count) = 0;
    // Checks the ids, groups them into distinct rows, and allocates the memory of the update.
    // Throws before anything is written.
    virtual void group(given_ids ids, row_sources const& sources, void const* gradients, std::size_t elements,
                       row_place const& rows, std::uint64_t num_rows, table_options const& options) = 0;
    // How many ids were left out, since their gradients were not finite.
    virtual std::size_t left_out() const = 0;
    // Updates all rows by the prepared step of the kernels.
    virtual void update(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
                        table_options const& options) = 0;
};

// The same for calls of several threads, which update single rows in an order of their own. A plan
// is the pending steps of a row, of row_facts::plan_bytes; kernels do not keep it. `striped` makes
// these calls, so that other tables do not compile them.
class concurrent_call {
public:
    virtual ~concurrent_call() = default;
    virtual row_call& grouping() = 0;
    // The distinct rows of the last group.
    virtual std::span<std::uint64_t const> rows() const = 0;
    // Keeps the prepared step of the kernels. Throws std::bad_alloc.
    virtual void keep_step() {}
    // Begins the step that was kept, and plans rows [first, last), which are due, and the rows of
    // the batch, one after another. Marks them as up to date.
    virtual void begin(row_place const& rows, void const* gradients, std::size_t elements, std::uint64_t num_rows,
                       table_options const& options, std::uint64_t first, std::uint64_t last, row_target const& due,
                       std::byte* plans) = 0;
    // Row k of the batch; and a row that was due.
    virtual void prefetch(std::size_t k) const noexcept = 0;
    virtual void prefetch_row(std::uint64_t id) const noexcept = 0;
    virtual void run(std::size_t k, std::byte const* plan) noexcept = 0;
    virtual void catch_up(std::uint64_t id, std::byte const* plan) noexcept = 0;
    // Reading: plans the rows, and then copies each.
    virtual void begin_reading(row_place const& rows, row_reading const& how, std::span<std::uint64_t const> ids,
                               std::byte* plans) = 0;
    virtual void read(std::uint64_t id, std::byte const* plan, void* out) const noexcept = 0;
};

class table_kernels {
public:
    virtual ~table_kernels() = default;
    // A copy of the policies and the clock, with or without the history.
    virtual std::unique_ptr<table_kernels> copy(bool with_history = true) const = 0;
    virtual row_facts const& facts() const noexcept = 0;
    // The policies with the catch-up policy, for files; and the updater, for saved states.
    virtual void visit_policies(policy_visitor& to) const = 0;
    virtual void describe(state_visitor& to) const = 0;

    virtual gradstep::clock clock() const = 0;
    virtual std::int64_t step() const = 0; // of the clock
    virtual void seek(gradstep::clock const& at) = 0;
    // Throws value_error for a clock to which it cannot seek.
    virtual void check_clock(gradstep::clock const& at) const = 0;

    // Prepares the next step, and advances the clock. If it throws, nothing has changed.
    virtual void next_step(step_options const& options) = 0;
    // Throws value_error if the history cannot keep the prepared step.
    virtual void require_kept() const = 0;
    // From now on, inactive rows miss the step. Returns its learning rate.
    virtual double record() = 0;

    // A history of `capacity` steps with the numbers of a run at `step`. Throws value_error for
    // numbers that no run can have saved if `checks`, and std::bad_alloc.
    virtual std::unique_ptr<row_history> history_with(std::uint64_t capacity, std::size_t width, std::int64_t step,
                                                      std::span<double const> numbers, double rate,
                                                      bool checks) const = 0;
    virtual void install(std::unique_ptr<row_history> history) noexcept = 0;
    virtual std::vector<double> saved_history(std::int64_t step) const = 0;

    // Whether all slots are zero before the first step.
    virtual bool begins_at_zero() const = 0;
    // Rows [first, last), or the rows that ids name. Values are not written if `initial` is null.
    virtual void begin(row_place const& rows, initial_values const* initial, std::uint64_t first, std::uint64_t last,
                       row_start const& start) const = 0;
    virtual void begin(row_place const& rows, initial_values const* initial, given_ids ids,
                       row_start const& start) const = 0;
    virtual void catch_up(row_place const& rows, std::uint64_t first, std::uint64_t last, row_target const& to) = 0;
    virtual void catch_up(row_place const& rows, given_ids ids, row_target const& to) = 0;
    // Copies rows to `out`, of the type of the values, or of the state for averages.
    virtual void read(row_place const& rows, given_ids ids, row_reading const& how, void* out) const = 0;
    // The addresses of the values of rows, for a reader: the rows themselves, or copies in `room`,
    // which has memory for each, if they have pending steps or are absent. Prefetches the rows that
    // it will be asked for `next`. Host memory.
    virtual void view(row_place const& rows, std::span<std::uint64_t const> ids, std::span<std::uint64_t const> next,
                      row_reading const& how, std::byte* room, void const** to) const = 0;
    // Adds rows that have these addresses.
    virtual void add_rows(pooled_rows const& of) const noexcept = 0;
    // Writes the averages of rows [first, last) to `out`, rounded to the type of the values.
    virtual void read_averages(row_place const& rows, std::uint64_t first, std::uint64_t last, std::int64_t step,
                               void* out) const = 0;
    // Sets the values of rows that have caught up to `step`, and their state follows. Host memory.
    virtual void set_rows(row_place const& rows, given_ids ids, void const* values, std::int64_t step) const = 0;
    // Throws value_error, size_error or buffer_error for initial values that the rows cannot have.
    virtual void check_initial(initial_values const& initial, std::uint64_t rows, std::size_t width) const = 0;
    // Throws value_error for an id out of range.
    virtual void check_ids(given_ids ids, std::uint64_t num_rows) const = 0;

    // Allocates memory to catch up so many rows at once, before anything is written.
    virtual void reserve(std::uint64_t) {}
    virtual std::unique_ptr<row_call> call() const = 0;

    // The first element of [first, last) that is not finite, else `last`. Host memory.
    virtual std::size_t find_nonfinite(void const* values, std::size_t first, std::size_t last) const noexcept = 0;

    // The backend: how many parts pay for so much memory traffic, and a call of each part.
    virtual std::size_t parts_for(std::size_t bytes) const = 0;
    virtual void for_each_part(std::size_t parts, task const& work) const = 0;
    virtual row_allocator const& allocator() const = 0;
    virtual memory_access access() const = 0;
    virtual void copy(void const* from, std::size_t elements, void* to) const = 0; // values
    virtual void set_to_zero(void* values, std::size_t elements) const = 0;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
