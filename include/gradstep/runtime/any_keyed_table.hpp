#pragma once
/// Tables of rows named by 64-bit keys, with policies chosen at run time. Needs nlohmann-json
/// (gradstep::json).
#include <gradstep/keyed/striped.hpp>
#include <gradstep/runtime/any_table.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// A row of an any_keyed_table, as eviction functions see it, with all steps applied (`keyed_row`).
/// The memory belongs to the table and is valid until the call ends.
struct any_keyed_row {
    /// The key, and the values.
    std::uint64_t key = 0;
    any_span values = {};
    /// The slots of the rule, in the order of any_updater::slot_name; row slots have one number.
    std::vector<any_span> state = {};
    /// The number of steps since the last step that contained the row (`age`, modulo 2^32), and the
    /// number of such steps (`touch_count`). 0 if the table does not keep them.
    std::uint32_t age = 0, touch_count = 0;
};

/// A keyed table whose policies are chosen at run time, the counterpart of `gs::keyed_table`.
///
///     gs::any_keyed_table features{gs::read_optimizer(text), gs::scalar::float32, width,
///                                  {.initial = gs::normal{0, 0.01, seed}, .admit_after = 3}};
///     features.update(keys, gradient_rows);
///     features.update(keys, offsets, bag_rows);      // embedding bags
///     features.rows(keys, out);
///
/// The rows have the bits of a gs::keyed_table with these policies and options, and so do its files
/// and the bytes of its changes. Policies are chosen as for `any_table`. Keys are spans of uint64,
/// or of int64 with the same bits; gradients and values have the type of the table's values.
///
/// Functions that change the table are not thread-safe. `rows` and other const functions can run
/// concurrently. For concurrent updates use gs::striped, unless rows catch up by `replay`.
class any_keyed_table : public keyed_rows<any_keyed_table> {
    using key_span = std::span<std::uint64_t const>;

public:
    /// Copies the policies of the optimizer; the clock starts at 0, and there are no rows. Throws
    /// the errors of any_table and of keyed_table.
    any_keyed_table(any_updater const& optimizer, std::size_t width, keyed_options const& options = {})
        : keyed_rows(made(optimizer, static_cast<std::size_t>(detail::counted("width", width, 1)), options)) {}
    /// The same from the text of an optimizer, for values of this type. The text can set `id`,
    /// `on_nonfinite` and `threads`, unless the options do.
    any_keyed_table(optimizer_configuration const& from, scalar storage, std::size_t width, keyed_options options = {})
        : any_keyed_table(any_updater(from, storage), width, detail::options_with(from.options, std::move(options))) {}

    /// The same with the type, width and options of one text, which `read_keyed_table` reads.
    /// Throws value_error for `concurrent`, as any_table.
    explicit any_keyed_table(keyed_table_configuration const& from)
        : any_keyed_table(from.optimizer, from.type, static_cast<std::size_t>(from.width), from.options) {
        detail::require_one_thread(from.concurrent, "keyed_table");
    }

    /// Updates the rows of `keys` by one step (keyed_table::update).
    void update(any_span keys, any_span gradient_rows, step_options const& options = {}) {
        table_rows().require_trained("update");
        key_span const names = detail::checked_keys(keys.now());
        auto const given = detail::checked_values(optimizer(), "gradient_rows", gradient_rows.now());
        core_.update(names, given, names.size(), "keys", options);
    }
    /// The same with pooled gradients (embedding bags): row b of `bag_rows` is the gradient of
    /// every key of bag b, times the weight of the key if `bags` has weights.
    void update(any_span keys, any_span offsets, any_span bag_rows, step_options const& options = {},
                bag_options const& bags = {}) {
        table_rows().require_trained("update");
        key_span const names = detail::checked_keys(keys.now());
        detail::given_ids const begins = detail::checked_ids("offsets", offsets.now());
        auto const given = detail::checked_values(optimizer(), "bag_rows", bag_rows.now());
        core_.update(names, given, given.size / width(), "bags", options, &begins, bags);
    }

    /// Writes copies of the rows of `keys` with all steps applied, in their order, to memory of
    /// keys.size x width elements; initial values for keys without a row.
    void rows(any_span keys, any_span out) const { read(keys, out, optimizer().storage(), false); }
    /// Writes the pooled rows of bags of keys, `width` elements for each bag (keyed_table::bags).
    void bags(any_span keys, any_span offsets, any_span out, bag_options const& bags = {}) const {
        key_span const names = detail::checked_keys(keys.now());
        detail::given_ids const begins = detail::checked_ids("offsets", offsets.now());
        core_.read_bags(names, begins, detail::checked_room(out.now(), optimizer().storage()), bags);
    }
    /// The same as `rows` for the averages that the rule keeps, in the type of the state. Throws
    /// value_error if it keeps none.
    void averages(any_span keys, any_span out) const {
        table_rows().require_trained("averages");
        detail::require_average(optimizer(), "averages");
        read(keys, out, optimizer().state_type(), true);
    }
    /// Replaces all values by their averages, as keyed_table::apply_average.
    [[nodiscard]] applied_average<any_keyed_table> apply_average() {
        table_rows().require_trained("apply_average");
        detail::require_average(optimizer(), "apply_average");
        table_rows().apply_average();
        return applied_average<any_keyed_table>(*this);
    }
    /// Resets the rows of `keys` (keyed_table::reset).
    void reset(any_span keys) {
        table_rows().require_trained("reset");
        core_.reset(detail::checked_keys(keys.now()));
    }

    using keyed_rows::evict_to;
    /// Evicts the rows for which chosen(row) returns true, or those with the lowest score(row)
    /// until there are at most `rows`, as the functions of keyed_table. `row` is an any_keyed_row.
    template <class Chosen> std::uint64_t evict(Chosen const& chosen) {
        return core_.evict_rows_by([&](std::uint64_t id) { return static_cast<bool>(chosen(row_at(id))); });
    }
    template <class Score> std::uint64_t evict_to(std::uint64_t rows, Score const& score) {
        return core_.evict_to_by(rows, [&](std::uint64_t id) { return static_cast<double>(score(row_at(id))); });
    }
    /// Protects rows from eviction, until as many calls of `release` (keyed_table::hold).
    void hold(any_span keys) { core_.hold(detail::checked_keys(keys.now())); }
    void release(any_span keys) { core_.release(detail::checked_keys(keys.now())); }

    /// Returns the rows that were updated or evicted since step `since`, as the bytes of
    /// row_changes::encode (keyed_table::changed_since).
    std::vector<std::byte> changed_since(std::int64_t since, row_content content = row_content::values) {
        row_changes_base out;
        return core_.with_memory(num_rows(), [&] {
            std::vector<std::int32_t> const ids = core_.begin_changes(out, since, content);
            // The values and the state of all rows, column by column.
            std::vector<detail::row_column> typed = typed_columns();
            std::size_t bytes = 0;
            for (detail::row_column& x : typed) {
                if (&x == typed.data() || content == row_content::state) x.size = ids.size() * x.row_elements;
                bytes += x.size * x.element_bytes;
            }
            std::vector<std::byte> memory(bytes);
            std::byte* next = memory.data();
            for (detail::row_column& x : typed) x.data = std::exchange(next, next + x.size * x.element_bytes);
            core_.copy_changes(ids, content, core_.columns_of(out, typed));
            std::string const rule = rule_name();
            char const* const element = optimizer().facts().element;
            std::vector<std::byte> encoded(detail::write_changes(out, element, rule, typed, nullptr, 0));
            detail::encode_changes(out, element, rule, typed, encoded);
            return encoded;
        });
    }
    /// Applies the bytes of the changes of another table (keyed_table::apply). Throws its errors
    /// and the errors of row_changes::decode. The table is then unchanged.
    void apply(std::span<std::byte const> changes) {
        table_rows().require_trained("apply");
        core_.with_memory(changes.size() / sizeof(std::uint64_t), [&] {
            std::vector<detail::row_column> typed = typed_columns();
            std::vector<std::byte> decoded;
            row_changes_base const given =
                detail::read_changes(changes, optimizer().facts().element, rule_name(), typed, decoded);
            core_.check_changes(given);
            detail::require_sizes(given, typed, "apply");
            core_.apply(given, core_.columns_of(given, typed));
        });
    }

    /// Uses the threads of an executor, as any_table::use_threads.
    template <executor Executor> void use_threads(Executor& executor) {
        use_threads(detail::executor_reference(executor));
    }
    void use_threads(detail::executor_reference const& threads) {
        static_cast<detail::any_table_kernels&>(table_rows().kernels()).use_threads(threads);
    }

    /// The policies.
    any_updater const& optimizer() const {
        return static_cast<detail::any_table_kernels const&>(table_rows().kernels()).updater();
    }

private:
    static detail::keyed_core made(any_updater const& optimizer, std::size_t width, keyed_options const& options) {
        detail::require_single_rows(optimizer, optimizer.limit(), "table", "a parameter");
        return detail::rethrow_as<std::bad_alloc>(
            [&] { return detail::keyed_core(std::make_unique<detail::any_table_kernels>(optimizer), width, options); },
            [&](auto const&) { detail::refuse_row_memory(0, width, optimizer.facts().storage_bytes); });
    }
    // The values and the state, without memory.
    std::vector<detail::row_column> typed_columns() const {
        std::vector<detail::row_column> out = table_rows().rows().columns();
        out.resize(1 + optimizer().facts().slots);
        return out;
    }
    std::string rule_name() const {
        std::string out;
        optimizer().facts().append_rule(out);
        return out;
    }

    void read(any_span keys, any_span out, scalar type, bool averages) const {
        key_span const names = detail::checked_keys(keys.now());
        out = out.now();
        table_rows().rows().check_room(table_rows().place(), detail::checked_room(out, type), out.size, names.size());
        core_.read(names, const_cast<void*>(out.data), averages);
    }
    any_keyed_row row_at(std::uint64_t id) const {
        auto const& facts = optimizer().facts();
        std::vector<std::byte*> at(table_rows().rows().facts().columns());
        detail::find_row(table_rows().place(), id, at.data());
        any_keyed_row out{core_.row_keys()[id], {facts.storage, static_cast<void const*>(at[0]), width()}};
        for (std::size_t i = 0; i < facts.slots; ++i)
            out.state.emplace_back(facts.state, static_cast<void const*>(at[1 + i]),
                                   facts.is_row_slot(i) ? 1 : width());
        out.age = core_.age_at(id);
        out.touch_count = core_.touch_count_at(id);
        return out;
    }
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
template <> struct state_access<any_keyed_table> {
    static saved_state get(any_keyed_table const& x, char const* call, row_progress& at) {
        return keyed_state::get(x.core(), call, at);
    }
    static bool load(any_keyed_table& x, saved_source const& from, bool) {
        keyed_state::load(x.core(), from);
        return false;
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ISA {
// As striped owns it; calls refuse a table whose rows several threads cannot update.
template <> struct striped_keys<any_keyed_table> {
    using storage = void;
    static constexpr auto make_call = &any_table_kernels::concurrent;

    any_keyed_table table;

    std::span<std::uint64_t const> keys(any_span const& of) const { return checked_keys(of.now()); }
    given_ids ids(any_span const& of) const { return checked_ids("offsets", of.now()); }
    given_values gradients(any_span const& of) const {
        return checked_values(table.optimizer(), "gradient_rows", of.now());
    }
    extent room(any_span const& out) const { return checked_room(out.now(), table.optimizer().storage()); }
    void fill(std::uint64_t key, std::byte* to) const {
        with_type(table.optimizer().storage(), [&]<class S>() {
            fill_rows(table.options().initial, reinterpret_cast<S*>(to), key, 1, table.width());
        });
    }
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
