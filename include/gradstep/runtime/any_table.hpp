#pragma once
#include <gradstep/memory/applied_average.hpp>
#include <gradstep/rows/numbered_rows.hpp>
#include <gradstep/rows/visible.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/detail/any_table_kernels.hpp>
#include <gradstep/runtime/table_configuration.hpp>
#include <gradstep/saved/load_options.hpp>
#include <gradstep/saved/table.hpp>

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
/// A table whose policies are chosen at run time, the counterpart of `gs::table`: rows of which
/// each step updates those in its batch. It owns values, state, stamps and history, in host memory.
///
///     gs::any_table embeddings{gs::read_optimizer(text), gs::scalar::float32, num_rows, width,
///                              {.initial = gs::uniform{-0.05, 0.05, seed},
///                               .duplicates = gs::duplicates::mean, .max_norm = 1}};
///     embeddings.update(ids, gradient_rows);
///     embeddings.update(ids, offsets, bag_rows);      // embedding bags
///     gs::any_table of_one_text{gs::read_table(text)};
///
/// The rows have the bits of a gs::table with these policies and options, and so do its files. The
/// optimizer defines the catch-up policy: `touch_only` works with every rule that updates single
/// rows, `exact` and `replay` with the combinations that are compiled for rows
/// (runtime/compile_catch_up.hpp). Its `threads` update the rows of a batch.
///
/// Functions that change the table are not thread-safe. `rows` and `averages` can run concurrently.
/// For concurrent updates use gs::striped (gradstep/striped.hpp), unless rows catch up by `replay`.
class any_table : public numbered_rows<any_table> {
public:
    /// Its rows are in host memory.
    static constexpr bool on_host = true;

    /// Copies the policies of the optimizer; the clock starts at 0. Throws value_error or
    /// size_error for numbers out of range, and value_error for a rule that updates no single rows,
    /// and for a limit of norms. Throws not_compiled_error if the catch-up policy is not compiled
    /// for the rule, and memory_error if the rows do not fit into memory.
    any_table(any_updater const& optimizer, std::uint64_t num_rows, std::size_t width,
              table_options const& options = {});
    /// The same from the text of an optimizer, for values of this type. The text can set `id`,
    /// `on_nonfinite` and `threads`, unless the options do. Also throws the errors of any_updater.
    any_table(optimizer_configuration const& from, scalar storage, std::uint64_t num_rows, std::size_t width,
              table_options options = {});

    /// The same with the type, the size and the options of one text, as `read_table` returns it.
    /// Throws value_error for `concurrent`, which only a gs::striped table can be.
    explicit any_table(table_configuration const& from)
        : any_table(from.optimizer, from.type, from.rows, static_cast<std::size_t>(from.width), from.options) {
        detail::require_one_thread(from.concurrent, "table");
    }

    /// Updates the rows in `ids` by one step, as gs::table::update. The ids are int32, int64 or
    /// uint64, and gradient_rows contains ids.size x width elements of the type of the values.
    /// Throws the errors of gs::table::update, and value_error for buffers of other types.
    void update(any_span ids, any_span gradient_rows, step_options const& options = {});
    /// The same with pooled gradients (embedding bags): row b of `bag_rows` is the gradient of
    /// every id of bag b, which contains ids[offsets[b]] to ids[offsets[b + 1] - 1], times the
    /// weight of the id if `bags` has weights.
    void update(any_span ids, any_span offsets, any_span bag_rows, step_options const& options = {},
                bag_options const& bags = {});
    /// The same for the rows of a mask, with a dense gradient of num_rows x width elements.
    void update(visible const& seen, any_span gradient, step_options const& options = {});

    /// Writes copies of rows with all steps applied, in the order of `ids`, to memory of ids.size x
    /// width elements.
    void rows(any_span ids, any_span out) const;
    /// Writes the pooled rows of bags, `width` elements for each bag (gs::table::bags).
    void bags(any_span ids, any_span offsets, any_span out, bag_options const& bags = {}) const;
    /// The same as `rows` for the averages that the rule keeps, in the type of the state. Throws
    /// value_error if it keeps none.
    void averages(any_span ids, any_span out) const;
    /// Replaces all values by their averages, as gs::table::apply_average.
    [[nodiscard]] applied_average<any_table> apply_average();
    /// Returns all values, row by row, after a flush, valid until the table changes. The rows of a
    /// table that grew are joined by a copy.
    any_span values();
    /// Adds rows with these values behind the others (gs::table::append). Throws value_error,
    /// size_error, buffer_error and memory_error; the table is then unchanged.
    void append(any_span values);
    /// Resets the rows in `ids`: initial values and the state of step 0.
    void reset(any_span ids);
    /// Sets the values of rows, for example to pretrained ones (gs::row_updater::set_rows).
    void set_rows(any_span ids, any_span values);

    /// Uses the threads of an executor, which must outlive the table, instead of the key `threads`.
    template <executor Executor> void use_threads(Executor& executor) {
        use_threads(detail::executor_reference(executor));
    }
    void use_threads(detail::executor_reference const& threads);

    /// The policies.
    any_updater const& optimizer() const;

    /// Writes a checkpoint, which a gs::table with these policies can load. Throws the errors of
    /// gs::table::save.
    void save(std::string const& file) const;
    /// Resumes from a file of `save`, or of a gs::table. Throws the errors of gs::table::load.
    void load(std::string const& file);
    /// Loads the parts that `options` select, and returns a load_report.
    load_report load(std::string const& file, load_options const& options);
};
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
template <> struct state_access<any_table> {
    static saved_state get(any_table const& x, char const* call, row_progress& at) {
        return state_of_rows(x.core(), call, at);
    }
    static bool load(any_table& x, saved_source const& from, bool) {
        load_rows(x.core(), from);
        return false;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Table> struct striped_rows; // striped.hpp

// A table whose policies are chosen at run time, as striped owns it.
template <> struct striped_rows<any_table> {
    using storage = void;
    using memory_type = void*;
    static constexpr bool owns_rows = true;
    static constexpr bool is_concurrent() { return true; } // calls refuse a table that is not
    static constexpr auto make_call = &any_table_kernels::concurrent;
    any_table table;

    given_ids ids(any_span const& of) const { return checked_ids("ids", of.now()); }
    given_values gradients(any_span const& of) const {
        return checked_values(table.optimizer(), "gradient_rows", of.now());
    }
    template <class Read>
    void read(row_place const& place, any_span const& of, any_span const& given, Read const& read) const {
        given_ids const which = ids(of);
        any_span const out = given.now();
        extent const room = checked_room(out, table.optimizer().storage());
        rows().check_room(place, room, out.size, which.size());
        read(which, static_cast<std::byte*>(const_cast<void*>(out.data)));
    }
    pooled_call pooled(row_place const& place, any_span const& of, any_span const& offsets, any_span const& out,
                       bag_options const& how) const {
        return pooled_rows_of(rows(), place, table.optimizer(), of, offsets, out, how);
    }
    row_core const& rows() const { return table.core().rows(); }
    row_core& rows() { return table.core().rows(); }
    bool average_is_applied() const { return table.average_is_applied(); }
    template <class F> void placed(F const& f) const { f(table.core().place()); }
    template <class F> decltype(auto) alone(F& f) { return std::forward<F>(f)(table); }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY || !defined(GRADSTEP_RUNTIME)
#include <gradstep/runtime/any_table.ipp>
#endif
