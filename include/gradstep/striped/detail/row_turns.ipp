#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::size_t checked_stripes(std::optional<std::size_t> stripes, std::uint64_t num_rows) {
    constexpr std::uint64_t few = 1 << 12, many = 1 << 18, most = std::uint64_t{1} << 31;
    std::uint64_t const count = stripes.value_or(std::clamp(num_rows, few, many));
    if (count == 0 || count > most)
        fail<value_error>({"striped: stripes"}, {count, " is out of range"}, {"[1, ", most, "]"});
    return count;
}

GRADSTEP_DEFINE row_turns::row_turns(std::optional<std::size_t> stripes, std::uint64_t num_rows, call_maker make)
    : make_call_(make), turns_(checked_stripes(stripes, num_rows)) {}

// Memory that is written before it is read, and grows geometrically.
template <class T> void reserve_scratch(std::vector<T>& memory, std::size_t size) {
    if (memory.size() < size) memory.resize(std::max(size, memory.size() + memory.size() / 2));
}

GRADSTEP_DEFINE void row_turns::call_scratch::make_room(std::size_t rows) {
    reserve_scratch(turns_, rows);
    reserve_scratch(later_, rows);
    reserve_scratch(plans_, rows * plan_bytes_ / sizeof(std::max_align_t) + 1);
}

GRADSTEP_DEFINE row_turns::scratch_lease::scratch_lease(row_turns const& from, row_core const& rows) : from_(from) {
    {
        plain_guard const lock(from_.free_lock_);
        leased_ = std::move(from_.free_);
        if (leased_) from_.free_ = std::move(leased_->next_);
    }
    if (leased_) return;
    leased_ = std::make_unique<call_scratch>();
    leased_->call_ = from.make_call_(rows.kernels());
    leased_->plan_bytes_ = rows.facts().plan_bytes;
    if (leased_->call_ == nullptr)
        fail<value_error>({"striped: catch_up"}, {"replay reads the history while other threads add to it"},
                          {"exact or touch_only"});
}

GRADSTEP_DEFINE row_turns::scratch_lease::~scratch_lease() {
    plain_guard const lock(from_.free_lock_);
    leased_->next_ = std::move(from_.free_);
    from_.free_ = std::move(leased_);
}

GRADSTEP_DEFINE void row_turns::group(row_core const& rows, row_place const& place, call_scratch& work, given_ids ids,
                                      row_sources const& sources, given_values const& gradients,
                                      std::uint64_t num_rows) {
    work.grouping().group(ids, sources, gradients.data, gradients.size, place, num_rows, rows.options);
    constexpr std::size_t usual_due_rows = 64; // usually enough, so that there is room for them under the lock
    work.make_room(usual_due_rows + work.call_->rows().size());
}

// How many rows ahead a ticket is prefetched. Drawing one takes a few nanoseconds.
inline constexpr std::size_t turns_ahead = 32;

GRADSTEP_DEFINE void row_turns::step(row_core& rows, row_place const& place, call_scratch& work, plain_guard& ordering,
                                     given_values const& gradients, step_options const& options, task const& on_begin) {
    // Under the lock, in this order: everything that can throw, the number of the step, the pending
    // steps of every row.
    auto const [first_due, last_due] = rows.stale_rows();
    std::span<std::uint64_t const> const ids = work.call_->rows();
    auto const due_count = static_cast<std::size_t>(last_due - first_due), count = due_count + ids.size();
    work.make_room(count);
    std::byte* const plans = reinterpret_cast<std::byte*>(work.plans_.data());
    rows.begin(place, *work.call_, gradients, options, first_due, last_due, plans);
    on_begin(0);
    turn* next = work.turns_.data();
    for (std::uint64_t id = first_due; id < last_due; ++id) *next++ = {id, turns_.draw(id)};
    for (std::size_t r = 0; r < ids.size(); ++r) {
        if (r + turns_ahead < ids.size()) turns_.prefetch(ids[r + turns_ahead]);
        *next++ = {ids[r], turns_.draw(ids[r])};
    }
    ordering.release();

    concurrent_call& call = *work.call_;
    std::size_t const each = rows.facts().plan_bytes;
    in_turn(
        rows, work, count,
        [&](std::size_t k) {
            if (k >= due_count) call.prefetch(k - due_count);
            else call.prefetch_row(work.turns_[k].row);
        },
        [&](std::size_t k) {
            if (k >= due_count) call.run(k - due_count, plans + k * each);
            else call.catch_up(work.turns_[k].row, plans + k * each);
        });
}

GRADSTEP_DEFINE void row_turns::read(row_core const& rows, row_place const& place, call_scratch& work, given_ids ids,
                                     bool as_they_are, std::byte* out) const {
    work.make_room(ids.size());
    reserve_scratch(work.indices_, ids.size());
    reserve_scratch(work.rows_, ids.size());
    std::size_t count = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        work.rows_[count] = ids[k];
        work.indices_[count] = k;
        count += static_cast<std::int64_t>(ids[k]) >= 0;
    }
    std::byte* const plans = reinterpret_cast<std::byte*>(work.plans_.data());
    plain_guard lock(order_);
    for (std::size_t k = 0; k < count; ++k) {
        if (k + turns_ahead < count) turns_.prefetch(work.rows_[k + turns_ahead]);
        work.turns_[k] = {work.rows_[k], turns_.draw(work.rows_[k])};
    }
    concurrent_call& call = *work.call_;
    call.begin_reading(place, {.step = rows.step(), .as_they_are = as_they_are}, {work.rows_.data(), count}, plans);
    lock.release();
    std::size_t const each = rows.facts().plan_bytes, bytes = rows.width() * rows.facts().storage_bytes;
    in_turn(
        rows, work, count, [&](std::size_t k) { call.prefetch_row(work.turns_[k].row); },
        [&](std::size_t k) { call.read(work.turns_[k].row, plans + k * each, out + work.indices_[k] * bytes); });
}

template <class Fetch, class F>
void row_turns::in_turn(row_core const& rows, call_scratch& work, std::size_t count, Fetch const& fetch,
                        F const& f) const {
    turn const* const all = work.turns_.data();
    std::size_t* const later = work.later_.data();
    // Looking for sleepers costs as much as a short row. Looks once per 16 KiB of values; sleepers
    // wait until then.
    std::size_t const rows_per_check = std::max<std::size_t>(1, 4096 / rows.width());
    rows.kernels().for_each_part(1, [&](std::size_t) {
        std::size_t postponed = 0, until_check = rows_per_check;
        auto const serve = [&](std::size_t k) {
            f(k);
            turns_.serve(all[k].ticket);
            if (--until_check != 0) return;
            turns_.wake();
            until_check = rows_per_check;
        };
        auto const fetch_later = [&](std::size_t k) {
            if (k >= count) return;
            turns_.prefetch(all[k].ticket);
            fetch(k);
        };
        for (std::size_t k = 0; k < rows_ahead; ++k) fetch_later(k);
        for (std::size_t k = 0; k < count; ++k) {
            fetch_later(k + rows_ahead);
            if (turns_.has_come(all[k].ticket)) serve(k);
            else later[postponed++] = k;
        }
        for (std::size_t j = 0; j < postponed; ++j) {
            turns_.wait(all[later[j]].ticket, work.sleeper_);
            serve(later[j]);
        }
        turns_.wake();
    });
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
