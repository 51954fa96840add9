#pragma once
#include <gradstep/keyed/core.hpp>

// How a keyed_table reports its changes, and how another one applies them.
namespace gradstep::detail::inline GRADSTEP_ISA {
// The rows that were updated in step `since` or later.
template <class Updater, class CatchUp>
std::vector<std::int32_t> keyed_core<Updater, CatchUp>::touched_since(std::int64_t since) const {
    auto const now = static_cast<std::uint32_t>(clock().step);
    auto const oldest =
        since == 0 ? UINT32_MAX : static_cast<std::uint32_t>(std::min<std::int64_t>(clock().step - since, UINT32_MAX));
    std::vector<std::int32_t> out;
    std::int32_t first = 0;
    shape().each_segment(stored.binding(), [&](row_memory<Updater> const& of) {
        std::uint32_t const* const last = of.last_touches.data();
        std::size_t const n = of.last_touches.size();
        // In groups: if few rows have changed, most groups contain none. Other groups are processed
        // without branches.
        constexpr std::size_t group = 16;
        std::int32_t ids[group];
        for (std::size_t begin = 0; begin < n; begin += group) {
            std::uint32_t least_age = UINT32_MAX;
            if (begin + group <= n)
                for (std::size_t i = 0; i < group; ++i) least_age = std::min(least_age, now - last[begin + i]);
            if (begin + group <= n && least_age > oldest) continue;
            std::size_t count = 0;
            for (std::size_t i = begin; i < std::min(begin + group, n); ++i) {
                ids[count] = first + static_cast<std::int32_t>(i);
                count += now - last[i] <= oldest;
            }
            out.insert(out.end(), ids, ids + count);
        }
        first += static_cast<std::int32_t>(n);
    });
    return out;
}

template <class Updater, class CatchUp>
row_changes<Updater> keyed_core<Updater, CatchUp>::changed_since(std::int64_t since, row_content content) {
    require_last_touches("changed_since");
    std::int64_t const now = clock().step;
    if (since < 0 || since > now)
        fail<value_error>({"changed_since"}, {"step ", since}, {"from 0 to ", now, ", the step of the table"});
    if (since != 0 && since < evictions.since)
        fail<value_error>({"changed_since"},
                          {"step ", since, ", and evictions are remembered from step ", evictions.since, " on"},
                          {"that step or a later one, or 0 for all rows"});
    changes_type out;
    out.since = since;
    out.until = now;
    out.width = width();
    out.content = content;
    with_memory(num_rows(), [&] {
        out.progress = stored.progress();
        if (since != 0)
            for (auto const& x : evictions.entries)
                if (x.step >= since) out.evicted.push_back(x.key);
        std::vector<std::int32_t> const ids = touched_since(since);
        using pack = typename backend::template pack<typename traits::compute>;
        auto const reader = stored.reader();
        out.keys.resize(ids.size());
        out.values.resize(ids.size() * width());
        bool const with_state = content == row_content::state;
        if (with_state) {
            for (std::size_t i = 0; i < Updater::slots; ++i)
                out.state[i].resize(ids.size() * (Updater::is_row_slot(i) ? 1 : width()));
            if (shape().kept.touches) out.touches.resize(ids.size());
            out.last_touches.resize(ids.size());
            if (options.touch_counts) out.touch_counts.resize(ids.size());
        }
        auto const message = columns_in(out);
        engine::for_each_row(on(), 0, ids.size(), stored.core().row_bytes(), [&](std::uint64_t k) {
            if (k + rows_ahead < ids.size()) {
                auto const ahead = static_cast<std::uint64_t>(ids[k + rows_ahead]);
                reader.rows.prefetch_lines(reader.rows.at(ahead).key, 1);
                if (with_state) reader.rows.prefetch(ahead);
                else reader.prefetch_read(ahead);
            }
            auto const id = static_cast<std::uint64_t>(ids[k]);
            auto const row = reader.rows.at(id);
            if (with_state) {
                reader.template catch_up<pack>(id);
                copy_row(message, pointers_of(row).data(), pointers_of(message, k).data());
            } else {
                out.keys[k] = *row.key;
                reader.template read<pack>(id, out.values.data() + k * width());
            }
        });
    });
    return out;
}

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::apply(changes_type const& changes) {
    stored.require_trained("apply");
    bool const all = changes.since == 0;
    require_sizes(changes);
    std::int64_t const now = clock().step;
    if (!all && (now < changes.since || now > changes.until))
        fail<sequence_error>({"apply"},
                             {"the changes are of the steps from ", changes.since, " to ", changes.until,
                              ", and this table is at step ", now},
                             {"one of these"});
    if (!all) return take_in(changes);
    keyed_core anew(stored.optimizer(), width(), stored.core().catch_up_policy, options);
    anew.counts = all_counts();
    anew.counts.evicted += num_rows();
    with_memory(held.size(), [&] { anew.held = held; });
    anew.take_in(changes);
    anew.evictions.since = changes.until; // the log of evictions starts here; earlier ones are unknown
    *this = std::move(anew);
}

// Everything that can throw comes first. This table is at a step of the changes, or new.
template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::take_in(changes_type const& changes) {
    using pack = typename backend::template pack<typename traits::compute>;
    auto& inner = stored.core();
    row_progress const& progress = changes.progress;
    inner.require_own_history(progress, progress.num_rows, progress.history.size());
    auto const steps = static_cast<std::uint64_t>(changes.until - clock().step);
    std::uint64_t const spared = refresh_cursor::steps_of(progress.max_history);
    if (row_core_type::has_history && num_rows() != 0 && steps > spared)
        fail<value_error>(
            {"apply"},
            {"the changes are of ", steps, " steps, and the history serves rows that were inactive for ", spared},
            {"no more steps than that; apply changes more often, or take all rows, since 0"});
    auto history = inner.history_at(progress, refresh_cursor(progress.max_history));
    std::vector<std::int32_t> gone = found(changes.evicted);
    std::erase(gone, no_row);
    std::sort(gone.begin(), gone.end());
    gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
    with_memory(changes.keys.size(), [&] {
        scratch_ids.resize(changes.keys.size());
        find(changes.keys, scratch_ids);
        new_keys.clear(); // new keys, and existing keys whose rows are evicted first
        for (std::size_t k = 0; k < scratch_ids.size(); ++k)
            if (scratch_ids[k] == no_row || std::binary_search(gone.begin(), gone.end(), scratch_ids[k]))
                new_keys.push_back(changes.keys[k]);
        std::sort(new_keys.begin(), new_keys.end());
        new_keys.erase(std::unique(new_keys.begin(), new_keys.end()), new_keys.end());
    });
    std::uint64_t const left = num_rows() - gone.size();
    if (new_keys.size() > most_rows - left)
        fail<size_error>({"apply"}, {left, " rows and ", new_keys.size(), " new ones"}, {"at most ", most_rows});
    with_memory(left + new_keys.size(), [&] {
        added.clear();
        added.reserve(new_keys.size());
        index.reserve(new_keys);
        stored.store().reserve(left + new_keys.size());
        evictions.reserve(gone.size());
    });
    // Rows that the new history does not cover catch up by the current one.
    auto reader = stored.reader();
    reader.skip_up_to = static_cast<std::uint32_t>(spared - std::min(spared, steps));
    inner.catch_up(reader, 0, num_rows());

    settle_ages(clock().step, changes.until);
    evict_rows(gone, changes.until);
    std::uint64_t const before = num_rows();
    for (std::size_t k = 0; k < changes.keys.size(); ++k) {
        std::uint32_t slot = index.find(changes.keys[k]);
        if (slot == key_index::none) {
            slot = static_cast<std::uint32_t>(before + added.size());
            index.insert(changes.keys[k], slot);
            added.push_back(changes.keys[k]);
        }
        scratch_ids[k] = static_cast<std::int32_t>(slot);
    }
    counts.admitted += added.size();
    std::uint64_t const rows = before + added.size();
    stored.store().set_rows(rows);
    inner.resume(progress, rows, std::move(history));
    admitter.age(clock().step);
    name_rows(before, added);
    bool const has_state = changes.content == row_content::state;
    auto const message = columns_in(changes);
    auto const begin = inner.beginning(stored.binding(), !has_state, clock().step);
    for (std::size_t k = 0; k < scratch_ids.size(); ++k) {
        auto const id = static_cast<std::uint64_t>(scratch_ids[k]);
        auto const row = begin.rows.at(id);
        if (!has_state) std::copy_n(changes.values.data() + k * width(), width(), row.weight);
        begin.template begin<pack>(id);
        if (row.last_touch != nullptr) *row.last_touch = static_cast<std::uint32_t>(clock().step);
        if (has_state) copy_row(message, pointers_of(message, k).data(), pointers_of(row).data());
    }
}

template <class Updater, class CatchUp>
auto keyed_core<Updater, CatchUp>::columns_in(changes_type const& changes) const -> columns_type {
    columns_type out = shape().columns();
    row_column* next = out.data();
    auto const take = [&](auto const& x) {
        if (!x.empty()) next->data = const_cast<std::byte*>(std::as_bytes(std::span(x)).data());
        next->stride = next->row_elements;
        ++next;
    };
    take(changes.values);
    for (auto const& slot : changes.state) take(slot);
    ++next; // stamps: rows are up to date
    take(changes.touches);
    take(changes.keys);
    take(changes.last_touches);
    take(changes.touch_counts);
    return out;
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::require_sizes(changes_type const& changes) const {
    if (changes.width != width())
        fail<size_error>({"apply"}, {"the changes are of rows of width ", changes.width}, {width()});
    if (changes.since < 0 || changes.until < changes.since || changes.progress.clock.step != changes.until)
        fail<value_error>({"apply"},
                          {"changes since ", changes.since, " until ", changes.until, ", with a clock at ",
                           changes.progress.clock.step},
                          {"in this order, and the clock at the last"});
    if (changes.until > latest_step)
        fail<value_error>({"apply"}, {"changes until ", changes.until}, {"at most ", latest_step, ", which is 2^62"});
    std::size_t const count = changes.keys.size();
    changes.require_sizes("apply");
    bool const has_touches = changes.content == row_content::state && shape().kept.touches;
    if (std::size_t const wanted = has_touches ? count : 0; changes.touches.size() != wanted)
        fail<size_error>({"apply: touches"}, {"has ", changes.touches.size(), " elements"}, {wanted, " in this table"});
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
