#include <algorithm>
#include <utility>
#include <vector>

#include <gradstep/json/detail/json.hpp>
#include <gradstep/saved/blob.hpp>

#include "table.hpp"

using namespace gradstep::c;
using gradstep::any_keyed_table, gradstep::any_span, gradstep::any_table;

struct gradstep_bytes : shell<std::vector<std::byte>> {
    static constexpr std::uint64_t living = 0x6772616473746562;
    static constexpr char const* kind = "gradstep_bytes";
};

namespace {
// f(held_rows), with errors; and f(table), for functions of one thread.
template <class F> gradstep_status with(gradstep_table const* table, gradstep_error* error, F const& f) {
    return guarded(error, [&] {
        std::visit(
            [&](auto& own) {
                own.require_no_judge();
                f(own);
            },
            shells<gradstep_table>::get(table, "table"));
    });
}
template <class F> gradstep_status alone(gradstep_table const* table, gradstep_error* error, F const& f) {
    return with(table, error, [&](auto& own) { own.alone(f); });
}
// The same for tables of one kind. `given`, `expected`: of the error for tables of the other kind.
template <class Table, class F>
gradstep_status only(gradstep_table const* table, gradstep_error* error, char const* given, char const* expected,
                     F const& f) {
    return with(table, error, [&](auto& own) {
        own.alone([&]<class Given>(Given& of) {
            if constexpr (std::is_same_v<Given, Table>) f(own, of);
            else refuse(GRADSTEP_BAD_HANDLE, {"table"}, {given}, {expected});
        });
    });
}
template <class F> gradstep_status numbered_with(gradstep_table const* table, gradstep_error* error, F const& f) {
    return only<any_table>(table, error, "its rows have keys", "a table made with \"table\"", f);
}
template <class F> gradstep_status numbered(gradstep_table const* table, gradstep_error* error, F const& f) {
    return numbered_with(table, error, [&](auto&, any_table& of) { f(of); });
}
// The same for calls that change which rows there are.
template <class F> gradstep_status own_rows(gradstep_table const* table, gradstep_error* error, F const& f) {
    return numbered_with(table, error, [&](auto& own, any_table& of) {
        own.require_own();
        f(of);
    });
}
template <class F> gradstep_status keyed_with(gradstep_table const* table, gradstep_error* error, F const& f) {
    return only<any_keyed_table>(table, error, "its rows have no keys", "a table made with \"keyed_table\"", f);
}
template <class F> gradstep_status keyed(gradstep_table const* table, gradstep_error* error, F const& f) {
    return keyed_with(table, error, [&](auto&, any_keyed_table& of) { f(of); });
}
// The same for calls in which functions of the host see rows.
template <class F> gradstep_status judged(gradstep_table const* table, gradstep_error* error, F const& f) {
    return keyed_with(table, error, [&](auto& own, any_keyed_table& of) { own.judging([&] { f(of); }); });
}

// Rows as functions of the host see them, in memory for one.
class host_row {
public:
    gradstep_row const* show(gradstep::any_keyed_row const& of) {
        state_.clear();
        for (any_span const& slot : of.state) state_.push_back(slot.data);
        row_ = {sizeof row_,    of.age,        of.touch_count, 0, of.key, of.values.size,
                of.values.data, state_.size(), state_.data()};
        return &row_;
    }

private:
    std::vector<void const*> state_;
    gradstep_row row_{};
};
} // namespace

gradstep_status gradstep_table_create(const char* config, size_t config_bytes, gradstep_table** out,
                                      gradstep_error* error) {
    return guarded(error, [&] {
        require(out, "out");
        auto held = read_text(config, config_bytes, [](std::string_view text) {
            using std::in_place_index;
            auto const all = gradstep::detail::parse_json(text);
            if (all.is_object() && all.find("keyed_table"))
                return std::make_unique<held_table>(in_place_index<1>, gradstep::read_keyed_table(text));
            return std::make_unique<held_table>(in_place_index<0>, gradstep::read_table(text));
        });
        *out = shells<gradstep_table>::add(std::move(held));
    });
}

gradstep_status gradstep_table_config(const gradstep_table* table, char* buffer, uint64_t bytes, uint64_t* written,
                                      gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        auto const now = own.alone([&](auto& of) { return own.config(of); });
        write_text(gradstep::to_json(now), buffer, bytes, written);
    });
}

gradstep_status gradstep_table_describe(const gradstep_table* table, gradstep_table_info* info, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        gradstep_table_info out = GRADSTEP_TABLE_INFO_INIT;
        out.dtype = static_cast<std::int32_t>(own.given_config().type);
        out.concurrent = own.given_config().concurrent;
        out.keyed = own.is_keyed;
        own.alone([&](auto& of) {
            auto const state = static_cast<std::int32_t>(of.optimizer().state_type());
            out.state_dtype = state < GRADSTEP_FLOAT32 ? out.dtype : state; // of an unsigned table it is unsigned
            out.num_rows = of.num_rows();
            out.width = of.width();
            if constexpr (requires { of.counts(); }) out.skipped = of.counts().left_out;
            else out.skipped = of.gradients_left_out();
        });
        write_known_part(out, info, "gradstep_table_info");
    });
}

gradstep_status gradstep_table_slot_count(const gradstep_table* table, uint64_t* count, gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        require(count, "count");
        *count = of.optimizer().slots();
    });
}

gradstep_status gradstep_table_slot(const gradstep_table* table, uint64_t index, gradstep_slot* info,
                                    gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        gradstep_slot slot = slot_of(of.optimizer(), index);
        if (slot.count == 0) slot.count = of.width();
        write_known_part(slot, info, "gradstep_slot");
    });
}

gradstep_status gradstep_table_set_executor(gradstep_table* table, gradstep_executor* executor, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        own.set_executor(executor == nullptr ? nullptr : shells<gradstep_executor>::get(executor, "executor"));
    });
}

gradstep_status gradstep_table_update(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                      const void* gradient_rows, uint64_t count, const gradstep_step_options* options,
                                      gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        own.require_own();
        auto const which = ids_of(ids, id_dtype, id_count);
        require(gradient_rows, "gradient_rows", count);
        auto const how = options_of(options);
        own.call([&](auto& of) { of.update(which, own.span(gradient_rows, count), how); });
    });
}

gradstep_status gradstep_table_update_bags(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                           const void* offsets, uint64_t bag_count, const void* bag_rows,
                                           uint64_t count, const gradstep_bag_options* bags,
                                           const gradstep_step_options* options, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        own.require_own();
        auto const which = ids_of(ids, id_dtype, id_count), begins = ids_of(offsets, id_dtype, bag_count, "offsets");
        require(bag_rows, "bag_rows", count);
        auto const how = options_of(options);
        auto const pooling = own.bags(bags, id_count);
        own.call([&](auto& of) { of.update(which, begins, own.span(bag_rows, count), how, pooling); });
    });
}

gradstep_status gradstep_table_rows(const gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                    void* out, uint64_t count, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        auto const which = ids_of(ids, id_dtype, id_count);
        require(out, "out", count);
        own.call([&](auto const& of) { of.rows(which, own.span(out, count)); });
    });
}

gradstep_status gradstep_table_int8_rows(const gradstep_table* table, const void* ids, int32_t id_dtype,
                                         uint64_t id_count, void* out, uint64_t bytes, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        auto const which = ids_of(ids, id_dtype, id_count);
        require(out, "out", bytes);
        own.call([&](auto const& of) {
            std::size_t const width = of.width();
            gradstep::detail::read_int8_rows(own.type(), which.size, width,
                                             std::span(static_cast<std::byte*>(out), bytes),
                                             [&](std::byte* to) { of.rows(which, own.span(to, which.size * width)); });
        });
    });
}

gradstep_status gradstep_table_bags(const gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                    const void* offsets, uint64_t bag_count, const gradstep_bag_options* bags,
                                    void* out, uint64_t count, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        auto const which = ids_of(ids, id_dtype, id_count), begins = ids_of(offsets, id_dtype, bag_count, "offsets");
        require(out, "out", count);
        auto const pooling = own.bags(bags, id_count);
        own.call([&](auto const& of) { of.bags(which, begins, own.span(out, count), pooling); });
    });
}

gradstep_status gradstep_table_averages(const gradstep_table* table, const void* ids, int32_t id_dtype,
                                        uint64_t id_count, void* out, uint64_t count, gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        auto const which = ids_of(ids, id_dtype, id_count);
        require(out, "out", count);
        of.averages(which, any_span(of.optimizer().state_type(), out, static_cast<std::size_t>(count)));
    });
}

gradstep_status gradstep_table_apply_average(gradstep_table* table, gradstep_error* error) {
    return alone(table, error, [](auto& of) { of.apply_average().dismiss(); });
}

gradstep_status gradstep_table_restore(gradstep_table* table, gradstep_error* error) {
    return alone(table, error, [](auto& of) { of.restore(); });
}

gradstep_status gradstep_table_set_rows(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                        const void* values, uint64_t count, gradstep_error* error) {
    return numbered(table, error, [&](any_table& of) {
        auto const which = ids_of(ids, id_dtype, id_count);
        require(values, "values", count);
        of.set_rows(which, any_span(of.optimizer().storage(), values, static_cast<std::size_t>(count)));
    });
}

gradstep_status gradstep_table_reset(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                     gradstep_error* error) {
    return alone(table, error, [&](auto& of) { of.reset(ids_of(ids, id_dtype, id_count)); });
}

gradstep_status gradstep_table_grow(gradstep_table* table, uint64_t num_rows, gradstep_error* error) {
    return own_rows(table, error, [&](any_table& of) { of.grow(num_rows); });
}

gradstep_status gradstep_table_append(gradstep_table* table, const void* values, uint64_t count,
                                      gradstep_error* error) {
    return own_rows(table, error, [&](any_table& of) {
        require(values, "values", count);
        of.append(any_span(of.optimizer().storage(), values, static_cast<std::size_t>(count)));
    });
}

gradstep_status gradstep_table_keep(gradstep_table* table, const uint8_t* mask, uint64_t rows, gradstep_error* error) {
    return own_rows(table, error, [&](any_table& of) {
        require(mask, "mask", rows);
        of.keep(std::span<std::uint8_t const>(mask, rows));
    });
}

gradstep_status gradstep_table_permute(gradstep_table* table, const void* order, int32_t id_dtype, uint64_t rows,
                                       gradstep_error* error) {
    return own_rows(table, error, [&](any_table& of) {
        gradstep::detail::checked_ids("order", ids_of(order, id_dtype, rows, "order")).visit([&](auto const& of_type) {
            of.permute(of_type);
        });
    });
}

gradstep_status gradstep_table_contains(const gradstep_table* table, uint64_t key, int32_t* contains,
                                        gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) {
        require(contains, "contains");
        *contains = of.contains(key);
    });
}

gradstep_status gradstep_table_keys(const gradstep_table* table, uint64_t first, uint64_t* keys, uint64_t count,
                                    uint64_t* written, gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) {
        require(written, "written");
        require(keys, "keys", count);
        std::uint64_t const rows = of.num_rows(), n = first < rows ? std::min(count, rows - first) : 0;
        auto const all = of.core().row_keys();
        for (std::uint64_t k = 0; k < n; ++k) keys[k] = all[first + k];
        *written = n;
    });
}

gradstep_status gradstep_table_key_counts(const gradstep_table* table, gradstep_key_counts* counts,
                                          gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) {
        auto const now = of.counts();
        write_known_part(gradstep_key_counts{sizeof(gradstep_key_counts), 0, now.admitted, now.turned_away, now.no_room,
                                             now.left_out, now.evicted},
                         counts, "gradstep_key_counts");
    });
}

gradstep_status gradstep_table_reserve(gradstep_table* table, uint64_t rows, gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) { of.reserve(rows); });
}

gradstep_status gradstep_table_hold(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                    gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) { of.hold(ids_of(ids, id_dtype, id_count)); });
}

gradstep_status gradstep_table_unhold(gradstep_table* table, const void* ids, int32_t id_dtype, uint64_t id_count,
                                      gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) { of.release(ids_of(ids, id_dtype, id_count)); });
}

gradstep_status gradstep_table_evict_older_than(gradstep_table* table, int64_t step, uint64_t* evicted,
                                                gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) {
        require(evicted, "evicted");
        *evicted = of.evict_older_than(step);
    });
}

gradstep_status gradstep_table_evict_to(gradstep_table* table, uint64_t rows, gradstep_row_score score, void* host,
                                        uint64_t* evicted, gradstep_error* error) {
    return judged(table, error, [&](any_keyed_table& of) {
        require(evicted, "evicted");
        host_row seen;
        auto const scored = [&](gradstep::any_keyed_row const& row) { return score(host, seen.show(row)); };
        *evicted = score == nullptr ? of.evict_to(rows) : of.evict_to(rows, scored);
    });
}

gradstep_status gradstep_table_evict(gradstep_table* table, gradstep_row_test test, void* host, uint64_t* evicted,
                                     gradstep_error* error) {
    return judged(table, error, [&](any_keyed_table& of) {
        require(reinterpret_cast<void const*>(test), "test");
        require(evicted, "evicted");
        host_row seen;
        *evicted = of.evict([&](gradstep::any_keyed_row const& row) {
            std::int32_t const chosen = test(host, seen.show(row));
            if (chosen < 0) refuse(GRADSTEP_BAD_VALUE, {"test"}, {"returned ", chosen}, {"0, or 1 to evict the row"});
            return chosen != 0;
        });
    });
}

gradstep_status gradstep_table_changed_since(gradstep_table* table, int64_t step, int32_t content, gradstep_bytes** out,
                                             gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) {
        require(out, "out");
        if (content < GRADSTEP_CHANGES_VALUES || content > GRADSTEP_CHANGES_INT8)
            refuse(GRADSTEP_BAD_VALUE, {"content"}, {content, " is out of range"}, {"0, 1 or 2"});
        auto const what = static_cast<gradstep::row_content>(content);
        *out = shells<gradstep_bytes>::add(std::make_unique<std::vector<std::byte>>(of.changed_since(step, what)));
    });
}

gradstep_status gradstep_table_apply_changes(gradstep_table* table, const void* changes, uint64_t bytes,
                                             gradstep_error* error) {
    return keyed(table, error, [&](any_keyed_table& of) {
        require(changes, "changes", bytes);
        of.apply(std::span(static_cast<std::byte const*>(changes), bytes));
    });
}

gradstep_status gradstep_bytes_view(const gradstep_bytes* bytes, const void** data, uint64_t* size,
                                    gradstep_error* error) {
    return guarded(error, [&] {
        auto const& own = shells<gradstep_bytes>::get(bytes, "bytes");
        require(data, "data");
        require(size, "size");
        *data = own.data();
        *size = own.size();
    });
}

void gradstep_bytes_release(gradstep_bytes* bytes) { shells<gradstep_bytes>::release(bytes); }

gradstep_status gradstep_table_flush(gradstep_table* table, gradstep_error* error) {
    return alone(table, error, [](auto& of) { of.flush(); });
}

gradstep_status gradstep_table_clock(const gradstep_table* table, gradstep_clock* clock, gradstep_error* error) {
    return alone(table, error, [&](auto& of) { write_known_part(clock_of(of.clock()), clock, "gradstep_clock"); });
}

gradstep_status gradstep_table_seek(gradstep_table* table, const gradstep_clock* clock, gradstep_error* error) {
    return with(table, error, [&](auto& own) {
        own.require_own();
        own.alone([&](auto& of) { of.seek(clock_of(clock)); });
    });
}

gradstep_status gradstep_table_state_bytes(const gradstep_table* table, uint64_t* bytes, gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        require(bytes, "bytes");
        *bytes = gradstep::state_bytes(of);
    });
}

gradstep_status gradstep_table_save(const gradstep_table* table, void* buffer, uint64_t bytes, uint64_t* written,
                                    gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        require(written, "written");
        require(buffer, "buffer", bytes);
        std::uint64_t const needed = gradstep::state_bytes(of);
        if (bytes < needed) refuse(GRADSTEP_BAD_SIZE, {"buffer"}, {"has ", bytes, " bytes"}, {"at least ", needed});
        gradstep::save_state(of, std::span(static_cast<std::byte*>(buffer), needed));
        *written = needed;
    });
}

gradstep_status gradstep_table_load(gradstep_table* table, const void* buffer, uint64_t bytes, gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        require(buffer, "buffer");
        gradstep::load_state(of, std::span(static_cast<std::byte const*>(buffer), bytes));
    });
}

gradstep_status gradstep_table_save_file(const gradstep_table* table, const char* path, gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        require(path, "path");
        of.save(path);
    });
}

gradstep_status gradstep_table_load_file(gradstep_table* table, const char* path, const gradstep_load_options* options,
                                         int32_t* outcome, gradstep_error* error) {
    return alone(table, error, [&](auto& of) {
        require(path, "path");
        auto const report = of.load(path, options_of(options));
        if (outcome != nullptr) *outcome = report.kept.empty() ? GRADSTEP_LOADED : GRADSTEP_KEPT;
    });
}

void gradstep_table_release(gradstep_table* table) { shells<gradstep_table>::release(table); }
