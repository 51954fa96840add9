#pragma once
#include <cstring>

#include <gradstep/rows/detail/restoring.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Throws value_error for options out of range, or not for these policies.
GRADSTEP_DEFINE void check_table_options(table_options const& options, row_facts const& of) {
    check(options);
    if (options.row_steps && of.is_replay)
        fail<value_error>({"table_options.row_steps"},
                          {"true is given with replay, whose missed steps have no number of their own"},
                          {"false, or touch_only"});
    if (options.row_steps && of.keeps_average && of.has_stamps)
        fail<value_error>({"table_options.row_steps"},
                          {"true is given with an average, which counts the steps of the table"},
                          {"false, or touch_only with ema"});
    if (options.row_steps && !of.counts_updates)
        fail<value_error>({"table_options.row_steps"},
                          {"true is given on a device, which cannot prepare the scalars of a row"},
                          {"false, or a backend of the host"});
    if (!of.guards_rows && (options.on_nonfinite != nonfinite::propagate || options.max_norm != 0))
        fail<value_error>({"table_options.on_nonfinite and max_norm"},
                          {"given on a device, which looks at no row by itself"},
                          {"propagate and 0, or a backend of the host"});
    if (options.duplicates == duplicates::mean && of.is_integral)
        fail<value_error>({"table_options.duplicates"}, {"mean is given for integers, which have none"},
                          {"sum, last, unique or assume_unique"});
    if (options.max_norm != 0 && (of.is_stochastic || of.is_integral))
        fail<value_error>({"table_options.max_norm"},
                          {options.max_norm, " is given for stochastic elements or integers, and it rounds to nearest"},
                          {"0"});
}

GRADSTEP_DEFINE row_core::row_core(std::unique_ptr<table_kernels> of, std::uint64_t rows, std::size_t elements,
                                   table_options const& chosen)
    : options(chosen), kernels_(std::move(of)), num_rows_(rows), width_(elements), capacity_(1), sweep_(1) {
    kernels_->seek({});
    check_table_options(options, facts());
    kept = {.stamps = facts().has_stamps, .touches = options.row_steps};
    check_count(rows);
    capacity_ = capacity_for(rows);
    sweep_ = refresh_cursor(capacity_);
    kernels_->install(history_with(capacity_, 0, {}, 0, false));
    call_ = kernels_->call();
}

GRADSTEP_DEFINE row_core::row_core(row_core const& other)
    : options(other.options), kept(other.kept), kernels_(other.kernels_->copy()), num_rows_(other.num_rows_),
      width_(other.width_), capacity_(other.capacity_), sweep_(other.sweep_), rate_(other.rate_),
      left_out_(other.left_out_), call_(kernels_->call()) {}

GRADSTEP_DEFINE std::vector<row_column> row_core::columns() const {
    row_facts const& of = facts();
    std::vector<row_column> out(of.columns());
    out[0] = {"values", of.storage_dtype, width_, of.storage_bytes};
    for (std::size_t i = 0; i < of.slots; ++i)
        out[1 + i] = {of.slot_names[i], of.state_dtype, of.is_row_slot(i) ? 1 : width_, of.state_bytes,
                      of.is_row_slot(i)};
    describe_columns(kept, out.data() + 1 + of.slots);
    return out;
}

GRADSTEP_DEFINE void row_core::check_count(std::uint64_t rows) const {
    if (rows > std::numeric_limits<std::size_t>::max() / sizeof(double) / width_)
        fail<size_error>({"num_rows"}, {rows, " rows of width ", width_, " have more elements than can be counted"},
                         {"fewer rows"});
}

GRADSTEP_DEFINE void row_core::check(row_place const& rows) const {
    if (rows.segments.size() == 1) return check_columns(rows.segments[0], num_rows_);
    // The columns beside values and state, of which the memory of a table can have others.
    std::array<row_column, columns_beside_state> own;
    describe_columns(kept, own.data());
    std::uint64_t held = 0;
    for (row_columns const& segment : rows.segments) {
        std::uint64_t const count = segment[0].size / width_;
        held += count;
        for (std::size_t i = 0; i < own.size(); ++i) {
            std::size_t const has = segment[1 + facts().slots + i].size;
            if (own[i].exists() != (has != 0) && count != 0)
                fail<size_error>({own[i].name}, {"has ", has, " elements"}, {own[i].exists() ? count : 0});
        }
    }
    if (held != num_rows_) fail<size_error>({"segments"}, {"there are ", held, " rows"}, {num_rows_});
}

GRADSTEP_DEFINE void row_core::check_gradients(row_place const& rows, given_values const& given, std::size_t count,
                                               char const* what, step_options const& how) const {
    require_gradient_rows(given.size, given.data, count, what, width_);
    if (how.zero_gradient && !given.is_writable)
        fail<buffer_error>({"gradient_rows"}, {"is const, and zero_gradient is set"}, {"writable memory"});
    extent const gradient{"gradient", given.data, given.size, given.size * facts().storage_bytes};
    for (row_columns const& segment : rows.segments) require_apart(gradient, segment);
}

GRADSTEP_DEFINE void row_core::check_room(row_place const& rows, extent const& out, std::size_t elements,
                                          std::size_t count, char const* what) const {
    require_room(elements, out.data, count, what, width_);
    for (row_columns const& segment : rows.segments) require_apart(out, segment);
}

GRADSTEP_DEFINE given_bags row_core::bags_of(row_place const& rows, given_ids offsets, bag_options const& how,
                                             std::size_t ids) const {
    bag_weights const& weights = how.weights;
    bool const has_weights = weights.element_bytes() != 0, mean = how.mode == bag_mode::mean;
    if (!has_weights && !mean) return {offsets};
    char const* const given = has_weights ? "weights are given" : "the mean is given";
    if (!facts().guards_rows)
        fail<value_error>({"bag_options"}, {given, " on a device"},
                          {"the sum without weights, or a backend of the host"});
    if (facts().weight_bytes == 0)
        fail<value_error>({"bag_options"}, {given, " for integers"}, {"the sum without weights"});
    if (!has_weights) return {offsets, nullptr, mean};
    if (weights.size() != ids)
        fail<size_error>({"weights"}, {"has ", weights.size(), " elements"}, {ids, ", one for each id"});
    if (weights.element_bytes() != facts().weight_bytes) {
        bool const of_float = facts().weight_bytes == sizeof(float);
        fail<value_error>({"weights"}, {"has elements of ", of_float ? "float64" : "float32"},
                          {of_float ? "float32" : "float64"});
    }
    if (ids == 0) return {offsets, nullptr, mean};
    if (weights.data() == nullptr) fail<buffer_error>({"weights"}, {"is null"}, {ids, " elements of memory"});
    extent const memory{"weights", weights.data(), ids, ids * facts().weight_bytes};
    for (row_columns const& segment : rows.segments) require_apart(memory, segment);
    return {offsets, weights.data(), mean};
}

GRADSTEP_DEFINE pooled_call row_core::pooled(row_place const& rows, given_ids names,
                                             std::optional<std::int64_t> padding, given_ids offsets,
                                             bag_options const& how, extent const& out) const {
    if (!facts().guards_rows)
        fail<value_error>({"bags"}, {"a read of pooled rows on a device"}, {"a backend of the host"});
    std::size_t const bags = out.size / width_;
    check_room(rows, out, out.size, bags, "bags");
    pooled_call of{names, names, padding, bags_of(rows, offsets, how, names.size()), bags, const_cast<void*>(out.data)};
    check_offsets(offsets, names.size(), bags, "out");
    return of;
}

GRADSTEP_DEFINE void row_core::check_ids(pooled_call const& of) const {
    of.ids.visit([&](auto const& of_type) { detail::check_ids(of_type, num_rows_, of.padding); });
}

GRADSTEP_DEFINE std::pair<std::uint64_t, std::uint64_t> row_core::stale_rows() const {
    if (!has_history()) return {0, 0};
    return sweep_.due(num_rows_);
}

template <class F> void row_core::take_step(step_options const& how, F const& f) {
    gradstep::clock const before = clock();
    prepare(how);
    rollback_guard clock_back([&] { kernels_->seek(before); });
    f(before.step);
    clock_back.dismiss();
    record();
}

GRADSTEP_DEFINE void row_core::prepare(step_options const& how) {
    gradstep::clock const before = clock();
    kernels_->next_step(how);
    rollback_guard clock_back([&] { kernels_->seek(before); });
    kernels_->require_kept();
    clock_back.dismiss();
}

// Before the rows are updated: if the application's pool throws from now on, parts of the step have
// run.
GRADSTEP_DEFINE void row_core::record() {
    if (has_history()) sweep_.advance(num_rows_);
    rate_ = kernels_->record();
}

GRADSTEP_DEFINE void row_core::apply(row_place const& rows, given_ids ids, row_sources const& sources,
                                     given_values const& gradients, step_options const& how) {
    group(rows, ids, sources, gradients);
    auto const due = stale_rows();
    // Rows that have caught up can stay so if the pool throws: the step has not begun.
    take_step(how, [&](std::int64_t before) { catch_up(rows, due.first, due.second, sweep_to(before)); });
    update(rows, gradients);
}

GRADSTEP_DEFINE void row_core::group(row_place const& rows, given_ids ids, row_sources const& sources,
                                     given_values const& gradients) {
    auto const due = stale_rows();
    call_->group(ids, sources, gradients.data, gradients.size, rows, num_rows_, options);
    kernels_->reserve(due.second - due.first);
}

GRADSTEP_DEFINE void row_core::begin(row_place const& rows, bool sweeps) {
    auto const due = stale_rows();
    record(); // first: if the pool throws, the rows have the step pending
    if (sweeps) catch_up(rows, due.first, due.second, sweep_to(step() - 1));
}

GRADSTEP_DEFINE void row_core::update(row_place const& rows, given_values const& gradients) {
    left_out_ += call_->left_out();
    call_->update(rows, gradients.data, gradients.size, num_rows_, options);
}

GRADSTEP_DEFINE void row_core::zero(given_values const& gradients, step_options const& how) const {
    if (how.zero_gradient) kernels_->set_to_zero(const_cast<void*>(gradients.data), gradients.size);
}

GRADSTEP_DEFINE void row_core::begin(row_place const& rows, concurrent_call& by, given_values const& gradients,
                                     step_options const& how, std::uint64_t first_due, std::uint64_t last_due,
                                     std::byte* plans) {
    std::int64_t const before = step();
    take_step(how, [&](std::int64_t) { by.keep_step(); });
    left_out_ += by.grouping().left_out();
    by.begin(rows, gradients.data, gradients.size, num_rows_, options, first_due, last_due, sweep_to(before), plans);
}

GRADSTEP_DEFINE void row_core::read(row_place const& rows, given_ids ids, void* out, bool averages,
                                    bool as_they_are) const {
    kernels_->check_ids(ids, num_rows_);
    kernels_->read(rows, ids, {.step = step(), .as_they_are = as_they_are, .averages = averages}, out);
}

GRADSTEP_DEFINE void row_core::pool(row_place const& rows, pooled_call const& of, bool as_they_are,
                                    initial_values const* absent) const {
    row_reading const how{.step = step(), .as_they_are = as_they_are, .absent = absent};
    // The rows that are prefetched at once stay in the first-level cache until they are added.
    std::size_t const most = std::min<std::size_t>(64, (std::size_t{16} << 10) / (width_ * facts().storage_bytes));
    std::size_t const at_once = std::max<std::size_t>(1, std::min(most, of.ids.size()));
    std::size_t const parts =
        std::min(kernels_->parts_for(of.ids.size() * row_bytes()), std::max<std::size_t>(1, of.count));
    std::vector<bag_pool> pools;
    pools.reserve(parts);
    for (std::size_t p = 0; p < parts; ++p) pools.emplace_back(*kernels_, width_, at_once);
    kernels_->for_each_part(parts, [&](std::size_t p) {
        pools[p].run(of, p * of.count / parts, (p + 1) * of.count / parts,
                     [&](auto ids, std::uint64_t const* keys, auto next, std::byte* room, void const** to) {
                         row_reading with_keys = how;
                         with_keys.keys = keys;
                         kernels_->view(rows, ids, next, with_keys, room, to);
                     });
    });
}

GRADSTEP_DEFINE void row_core::catch_up(row_place const& rows, std::uint64_t first, std::uint64_t last,
                                        row_target const& to) {
    if (has_history() && first < last) kernels_->catch_up(rows, first, last, to);
}

GRADSTEP_DEFINE std::uint32_t row_core::pending_steps(row_place const& rows, std::uint64_t id) const {
    std::vector<std::byte*> row(facts().columns());
    find_row(rows, id, row.data());
    std::uint32_t stamp = 0;
    std::memcpy(&stamp, row[1 + facts().slots], sizeof stamp);
    return static_cast<std::uint32_t>(step()) - stamp;
}

GRADSTEP_DEFINE void row_core::begin_rows(row_place const& rows, initial_values const* initial, std::uint64_t first,
                                          std::uint64_t last, bool catches_up) const {
    std::int64_t const joined = catches_up ? 0 : step();
    kernels_->begin(rows, initial, first, last, {true, joined, static_cast<std::uint32_t>(step())});
}

GRADSTEP_DEFINE void row_core::begin_zeroed_rows(row_place const& rows, initial_values const& initial,
                                                 std::uint64_t first, std::uint64_t last, bool catches_up) const {
    std::int64_t const joined = catches_up ? 0 : step();
    bool const values = !is_zero(initial), stamps = facts().has_stamps && step() != 0,
               state = facts().has_master || (joined != 0 && facts().keeps_average) || !kernels_->begins_at_zero();
    if (values || state || stamps)
        kernels_->begin(rows, values ? &initial : nullptr, first, last,
                        {state, joined, static_cast<std::uint32_t>(step())});
}

GRADSTEP_DEFINE void row_core::reset(row_place const& rows, given_ids ids) const {
    kernels_->check_ids(ids, num_rows_);
    initial_values const initial = later_rows();
    kernels_->begin(rows, &initial, ids, {true, step(), static_cast<std::uint32_t>(step())});
}

GRADSTEP_DEFINE void row_core::set_rows(row_place const& rows, given_ids ids, given_values const& values) const {
    if (values.size != ids.size() * width_)
        fail<size_error>({"set_rows"}, {values.size, " values for ", ids.size(), " rows"}, {ids.size() * width_});
    if (values.data == nullptr && values.size != 0)
        fail<buffer_error>({"set_rows"}, {"values is null"}, {values.size, " elements of memory"});
    kernels_->check_ids(ids, num_rows_);
    kernels_->set_rows(rows, ids, values.data, step());
}

GRADSTEP_DEFINE bool row_core::missed_all_steps(new_rows begin) const {
    bool const has_totals = facts().history.kind == history_kind::factors;
    auto const steps = static_cast<std::uint64_t>(step());
    if (!has_history() || begin == new_rows::as_of_now || steps == 0) return false;
    if (!has_totals && steps >= capacity_)
        fail<value_error>({"new_rows::since_the_start"},
                          {"at step ", steps, " the history has only the last ", capacity_ - 1, " steps"},
                          {"a longer table_options.max_history, or new_rows::as_of_now"});
    return true;
}

GRADSTEP_DEFINE void row_core::catch_up_since_start(row_place const& rows, std::uint64_t first, std::uint64_t last) {
    // A stamp is at most 2^32 - 1 steps behind. After that, no decaying state is left.
    auto const stamp = step() >> 32 == 0 ? 0 : static_cast<std::uint32_t>(step()) + 1;
    kernels_->begin(rows, nullptr, first, last, {false, 0, stamp});
    catch_up(rows, first, last, {step(), 0, true});
}

GRADSTEP_DEFINE std::uint64_t row_core::capacity_for(std::uint64_t rows) const {
    return has_history() ? gradstep::detail::history_capacity(options, rows, facts().rounds_coarsely) : 1;
}

GRADSTEP_DEFINE std::unique_ptr<row_history> row_core::history_with(std::uint64_t capacity, std::int64_t step,
                                                                    std::span<double const> numbers, double rate,
                                                                    bool checks) const {
    return rethrow_as<std::bad_alloc>(
        [&] { return kernels_->history_with(capacity, width_, step, numbers, rate, checks); },
        [&](auto const&) {
            fail<memory_error>({"max_history"},
                               {"a history of ", capacity, " steps needs ", capacity * facts().history.bytes_per_step,
                                " bytes, which the system does not give"});
        });
}

GRADSTEP_DEFINE void row_core::grow(std::uint64_t rows) {
    std::uint64_t const capacity = capacity_for(rows);
    if (capacity > capacity_) {
        kernels_->install(history_with(capacity, step(), kernels_->saved_history(step()), rate_, false));
        capacity_ = capacity;
        sweep_.extend(capacity);
    }
    num_rows_ = rows;
}

GRADSTEP_DEFINE void row_core::shrink(std::uint64_t rows) noexcept {
    num_rows_ = rows;
    sweep_.shrink(rows);
}

GRADSTEP_DEFINE void row_core::renumber(std::uint64_t rows) noexcept {
    num_rows_ = rows;
    sweep_.restart();
}

GRADSTEP_DEFINE void row_core::begin_lap(row_place const& rows) {
    catch_up(rows, 0, num_rows_, sweep_to(step()));
    sweep_.restart();
}

GRADSTEP_DEFINE void row_core::rearrange(row_place const& rows, row_order&& order) {
    row_columns const all = rows.segments[0];
    std::vector<std::byte*> a(all.size()), b(all.size());
    begin_lap(rows);
    auto const swaps = swaps_of(std::move(order));
    for (std::size_t i = 0; i != swaps.size(); ++i) {
        if (swaps[i] == i) continue;
        find_row(rows, i, a.data());
        find_row(rows, swaps[i], b.data());
        swap_rows(all, a.data(), b.data());
    }
}

GRADSTEP_DEFINE row_progress row_core::progress(gradstep::clock const& at) const {
    return {at,
            num_rows_,
            facts().history.kind,
            capacity_,
            sweep_.row(),
            sweep_.rows(),
            rate_,
            kernels_->saved_history(at.step)};
}

GRADSTEP_DEFINE void row_core::require_own_history(row_progress const& from, std::uint64_t rows,
                                                   std::uint64_t history_size) const {
    kernels_->check_clock(from.clock); // throws for negative counts
    detail::require_own_history(from, rows, history_size, facts().history);
}

GRADSTEP_DEFINE void row_core::seek(gradstep::clock const& at) {
    check_seek(at);
    kernels_->seek(at);
}

GRADSTEP_DEFINE void row_core::check_seek(gradstep::clock const& at) const {
    if (has_history())
        fail<sequence_error>({"seek"}, {"rows that catch up have a history of their steps"},
                             {"touch_only; load a checkpoint instead"});
    kernels_->check_clock(at);
}

GRADSTEP_DEFINE resumed_history row_core::history_at(row_progress const& from, refresh_cursor const& at) const {
    require_finite_history(from);
    return {history_with(from.max_history, from.clock.step, from.history, from.rate, true), from.max_history, at,
            from.rate};
}

GRADSTEP_DEFINE void row_core::resume(row_progress const& from, std::uint64_t rows,
                                      resumed_history&& history) noexcept {
    kernels_->seek(from.clock);
    kernels_->install(std::move(history.history));
    capacity_ = history.capacity;
    sweep_ = history.sweep;
    rate_ = history.rate;
    num_rows_ = rows;
}

GRADSTEP_DEFINE void row_core::restore(row_place const& rows, row_progress const& from) {
    require_own_history(from, num_rows_, from.history.size());
    auto const at = refresh_cursor::at(from.lap_row, from.lap_rows, num_rows_, from.max_history);
    if (facts().has_stamps) {
        std::uint64_t first = 0;
        memory_access const device = kernels_->access();
        std::vector<std::uint32_t> copied;
        for (row_columns const& segment : rows.segments) {
            row_column const& column = segment[1 + facts().slots];
            std::span<std::uint32_t const> stamps(reinterpret_cast<std::uint32_t const*>(column.data), column.size);
            if (device.read != nullptr) {
                copied.resize(stamps.size());
                device.read(device.backend, std::as_bytes(stamps), std::as_writable_bytes(std::span(copied)));
                stamps = copied;
            }
            first = require_stamps(first, stamps, std::max<std::size_t>(1, column.stride), from, at, has_history());
        }
    }
    resume(from, num_rows_, history_at(from, at));
}

GRADSTEP_DEFINE void find_row(row_place const& rows, std::uint64_t id, std::byte** to) {
    row_columns const all = rows.segments[0];
    std::byte* const* const page = rows.pages == nullptr ? nullptr : rows.pages + (id >> rows.shift) * all.size();
    std::uint64_t const row = page == nullptr ? id : id & ((std::uint64_t{1} << rows.shift) - 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::byte* const first = page == nullptr ? all[i].data : page[i];
        to[i] = first == nullptr ? nullptr : first + row * all[i].stride * all[i].element_bytes;
    }
}

GRADSTEP_DEFINE std::byte* find_values(row_place const& rows, std::uint64_t id) {
    row_column const& values = rows.segments[0][0];
    if (rows.pages == nullptr) return values.data + id * values.stride * values.element_bytes;
    std::byte* const page = rows.pages[(id >> rows.shift) * rows.segments[0].size()];
    return page + (id & ((std::uint64_t{1} << rows.shift) - 1)) * values.stride * values.element_bytes;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
