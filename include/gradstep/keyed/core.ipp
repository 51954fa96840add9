#pragma once

// Programs with keyed tables compile this file themselves, for their instruction set: a lookup
// compares keys by vectors.
namespace gradstep::detail::inline GRADSTEP_ISA {
inline keyed_options checked_keyed_options(keyed_options const& chosen) {
    check(chosen);
    if (chosen.initial.is_container())
        fail<value_error>({"keyed_options.initial"}, {"holds values"},
                          {"a number, uniform or normal, since keys have no order"});
    if (chosen.touch_counts && !chosen.last_touches)
        fail<value_error>({"keyed_options.touch_counts"},
                          {"true is given without last_touches, by which a step counts once"}, {"last_touches = true"});
    if (static_cast<std::uint64_t>(chosen.max_rows) > keyed_core::most_rows)
        fail<value_error>({"keyed_options.max_rows"}, {chosen.max_rows, " is out of range"},
                          {"at most ", keyed_core::most_rows});
    return chosen;
}
inline table_options table_options_of(keyed_options const& from) {
    table_options out;
    out.initial = from.initial;
    out.duplicates = from.duplicates;
    out.row_steps = from.row_steps;
    out.ignore_id = keyed_core::no_row;
    out.max_history = from.max_history;
    out.id = from.id;
    out.max_norm = from.max_norm;
    return out;
}

inline keyed_core::keyed_core(std::unique_ptr<table_kernels> kernels, std::size_t width, keyed_options const& chosen)
    : options(checked_keyed_options(chosen)), stored(std::move(kernels), width, table_options_of(options),
                                                     {.touches = options.row_steps,
                                                      .keys = true,
                                                      .last_touches = options.last_touches,
                                                      .touch_counts = options.touch_counts}),
      admitter(options.admit_after, options.admit_probability, options.admit_seed, options.sketch_bytes,
               options.sketch_half_life),
      row_pointers(2 * stored.rows().facts().columns()) {}

inline std::vector<std::uint64_t> keyed_core::keys() const {
    std::vector<std::uint64_t> out;
    with_memory(num_rows(), [&] { out.reserve(num_rows()); });
    for (std::size_t k = 0; k < stored.segments(); ++k) {
        row_column const& of = stored.segment(k)[key_column()];
        auto const* const first = reinterpret_cast<std::uint64_t const*>(of.data);
        out.insert(out.end(), first, first + of.size);
    }
    return out;
}

inline void keyed_core::find(key_span keys, std::span<std::int32_t> to) const {
    auto* const slots = reinterpret_cast<std::uint32_t*>(to.data());
    constexpr std::size_t bytes = 64; // a cache line of the index per key
    std::size_t const parts = stored.kernels().parts_for(keys.size() * bytes);
    if (parts < 2) return index.find(keys, slots); // without the floating-point mode of parts
    stored.kernels().for_each_part(parts, [&](std::size_t p) {
        std::size_t const first = p * keys.size() / parts, last = (p + 1) * keys.size() / parts;
        index.find(keys.subspan(first, last - first), slots + first);
    });
}

inline std::vector<std::int32_t> keyed_core::found(key_span keys) const {
    auto ids = with_memory(keys.size(), [&] { return std::vector<std::int32_t>(keys.size()); });
    find(keys, ids);
    return ids;
}

inline void keyed_core::update(key_span keys, given_values const& gradients, std::size_t count, char const* what,
                               step_options const& how, given_ids const* offsets, bag_options const& bags) {
    row_core& rows = stored.rows();
    rows.check_gradients(stored.place(), gradients, count, what, how);
    row_sources sources;
    if (offsets != nullptr) {
        given_bags const its = rows.bags_of(stored.place(), *offsets, bags, keys.size());
        sources = with_memory(keys.size(), [&] { return rows.call().bags(its, keys, padding(), count); });
    }
    apply(keys, sources, gradients, how);
    rows.zero(gradients, how);
}

inline void keyed_core::read_bags(key_span keys, given_ids offsets, extent const& out, bag_options const& how) const {
    pooled_call call = stored.rows().pooled(stored.place(), keys, padding(), offsets, how, out);
    std::vector<std::int32_t> const ids = found(keys);
    call.ids = std::span<std::int32_t const>(ids);
    with_memory(keys.size(), [&] { stored.read_bags(call, &options.initial); });
}

inline void keyed_core::reserve_rows(std::uint64_t rows) {
    stored.require_trained("reserve");
    if (rows > most_rows) fail<value_error>({"reserve: rows"}, {rows, " is out of range"}, {"at most ", most_rows});
    stored.reserve(rows);
}

inline void keyed_core::read(key_span keys, void* out, bool averages) const {
    std::vector<std::int32_t> const ids = found(keys);
    stored.kernels().read(stored.place(), std::span<std::int32_t const>(ids),
                          {.step = clock().step,
                           .as_they_are = !averages && stored.average_is_applied(),
                           .averages = averages,
                           .absent = &options.initial,
                           .keys = keys.data()},
                          out);
}

// A step of a keyed_table: new keys get rows first, and lose them again if the step fails.

inline std::uint64_t keyed_core::leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids,
                                                     row_sources const& sources, given_values const& gradients) const {
    table_kernels const& by = stored.kernels();
    if (options.on_nonfinite == nonfinite::propagate ||
        !row_grouping::has_nonfinite(by, sources, gradients.data, gradients.size, keys.size()))
        return 0;
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (keys[k] == options.ignore_key) continue;
        constexpr row_grouping::id_names names{"keys", "the gradient of key ", "the weight of key "};
        if (row_grouping::is_finite(by, sources, gradients.data, k, width(), options.on_nonfinite, names, keys[k]))
            continue;
        ids[k] = left_out_row;
        ++count;
    }
    return count;
}

inline void keyed_core::admit(key_span keys, std::span<std::int32_t> ids) {
    std::uint64_t const before = num_rows(), most = this->most();
    added.clear();
    if (count_new(keys, ids) == 0) return;
    with_memory(keys.size(), [&] {
        new_keys.clear();
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (is_new(keys[k], ids[k])) new_keys.push_back(keys[k]);
        admitter.reserve(new_keys.size());
        std::sort(new_keys.begin(), new_keys.end());
        new_keys.erase(std::unique(new_keys.begin(), new_keys.end()), new_keys.end());
        added.reserve(new_keys.size());
        index.reserve(new_keys);
    });
    std::uint64_t rows = before;
    auto const step = static_cast<std::uint64_t>(clock().step + 1);
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (!is_new(keys[k], ids[k])) continue;
        std::uint32_t slot = index.find(keys[k]); // it may have been added earlier in this batch
        if (slot == key_index::none) {
            if (!admitter.admits(keys[k], step)) {
                ++counts.turned_away;
                continue;
            }
            if (rows >= most) {
                ++counts.no_room;
                continue;
            }
            slot = static_cast<std::uint32_t>(rows++);
            index.insert(keys[k], slot);
            added.push_back(keys[k]);
            ++counts.admitted;
        }
        ids[k] = static_cast<std::int32_t>(slot);
    }
    if (rows == before) return;
    stored.reserve(rows);
    stored.rows().grow(rows);
    stored.set_rows(rows);
    name_rows(before, added);
    stored.rows().begin_rows(stored.place(), &options.initial, before, rows, false);
}

inline void keyed_core::forget_new(std::uint64_t rows_before, keyed_counts const& counts_before) noexcept {
    for (std::uint64_t const key : added) index.erase(key);
    set_rows(rows_before);
    admitter.rollback();
    counts = counts_before;
}

inline void keyed_core::name_rows(std::uint64_t first, key_span keys) {
    auto const names = row_keys();
    auto const touches = last_touches(), counted = touch_counts();
    for (std::size_t k = 0; k < keys.size(); ++k) {
        names[first + k] = keys[k];
        if (touches) touches[first + k] = static_cast<std::uint32_t>(clock().step);
        if (counted) counted[first + k] = 0;
    }
}

inline void keyed_core::touch(std::span<std::int32_t const> ids) {
    if (!options.last_touches) return;
    auto const touches = last_touches(), counted = touch_counts();
    auto const now = static_cast<std::uint32_t>(stored.step());
    for (std::size_t k = 0; k < ids.size(); ++k) {
        constexpr std::size_t ahead = 64; // more than for rows: these are a line or two each
        if (k + ahead < ids.size() && ids[k + ahead] != no_row) {
            auto const later = static_cast<std::uint64_t>(ids[k + ahead]);
            prefetch_memory(&touches[later], sizeof now);
            if (counted) prefetch_memory(&counted[later], sizeof now);
        }
        if (ids[k] == no_row) continue;
        auto const id = static_cast<std::uint64_t>(ids[k]);
        if (counted && touches[id] != now) counted[id] += counted[id] != UINT32_MAX;
        touches[id] = now;
    }
    settle_ages(stored.step() - 1, stored.step());
}

inline void keyed_core::settle_ages(std::int64_t since, std::int64_t until) {
    constexpr std::int64_t every = std::int64_t{1} << 30, oldest = std::int64_t{1} << 31;
    if (since / every == until / every || !options.last_touches) return;
    auto const touches = last_touches();
    std::int64_t const still = until - stored.step();
    for (std::uint64_t id = 0; id < num_rows(); ++id)
        if (age_of(touches[id]) + still > oldest) touches[id] = static_cast<std::uint32_t>(until - oldest);
}

inline void keyed_core::seek(gradstep::clock const& at) {
    std::int64_t const now = clock().step;
    if (at.step < now || at.step > latest_step)
        fail<value_error>({"seek"}, {"step ", at.step}, {"from ", now, ", the step of the table, to ", latest_step});
    stored.rows().check_seek(at);
    settle_ages(now, at.step); // by the clock before, since ages at the new one would wrap
    stored.rows().seek(at);
    admitter.age(at.step);
}

[[gnu::cold]] inline void keyed_core::refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const {
    if (options.duplicates != duplicates::unique) return;
    std::vector<std::size_t> order; // positions by row; equal rows in order
    with_memory(keys.size(), [&] {
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (ids[k] != no_row) order.push_back(k);
    });
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return ids[a] != ids[b] ? ids[a] < ids[b] : a < b; });
    std::size_t first = keys.size(), before = 0; // the first duplicate
    for (std::size_t i = 1; i < order.size(); ++i)
        if (ids[order[i]] == ids[order[i - 1]] && order[i] < first) first = order[i], before = order[i - 1];
    if (first != keys.size())
        fail<value_error>({"keys[", first, "]"}, {keys[first], " appears before, at position ", before},
                          {"distinct keys, since duplicates is unique; sum adds their gradients"});
}

inline void keyed_core::apply(key_span keys, row_sources const& sources, given_values const& gradients,
                              step_options const& how) {
    std::int64_t const last_step = stored.step();
    with_memory(keys.size(), [&] { scratch_ids.resize(keys.size()); });
    find(keys, scratch_ids);
    std::uint64_t const left_out = leave_out_nonfinite(keys, scratch_ids, sources, gradients);
    rollback_guard stepping([&, before = num_rows(), counts_before = counts] {
        if (stored.step() == last_step) forget_new(before, counts_before);
        else finish_step(scratch_ids); // the application's thread pool threw: parts of the step have run
    });
    admit(keys, scratch_ids);
    if (left_out != 0) std::replace(scratch_ids.begin(), scratch_ids.end(), left_out_row, no_row);
    counts.left_out += left_out;
    naming_keys(keys, scratch_ids, [&] {
        with_memory(keys.size(),
                    [&] { stored.update(std::span<std::int32_t const>(scratch_ids), sources, gradients, how); });
    });
    stepping.dismiss();
    finish_step(scratch_ids);
}

inline void keyed_core::require_last_touches(char const* what) const {
    stored.require_trained(what);
    if (!options.last_touches)
        fail<sequence_error>({what}, {"this table does not keep when its rows were touched"},
                             {"a table made with last_touches = true"});
}

inline void keyed_core::reset(key_span names) {
    std::vector<std::int32_t> ids = found(names);
    std::erase(ids, no_row);
    stored.rows().reset(stored.place(), std::span<std::int32_t const>(ids));
    if (!options.last_touches) return;
    auto const touches = last_touches();
    for (std::int32_t const id : ids)
        touches[static_cast<std::uint64_t>(id)] = static_cast<std::uint32_t>(clock().step);
}

// How a keyed_table evicts rows.

inline std::uint64_t keyed_core::evict_older_than(std::int64_t step) {
    require_last_touches("evict_older_than");
    auto const touches = last_touches();
    std::int64_t const now = clock().step;
    return evict_if([&](std::uint64_t id) { return now - age_of(touches[id]) < step; });
}

inline std::uint64_t keyed_core::evict_to(std::uint64_t rows) {
    require_last_touches("evict_to");
    auto const touches = last_touches();
    return evict_lowest(rows, [&](std::uint64_t id) { return -static_cast<double>(age_of(touches[id])); });
}

inline std::vector<std::int32_t> keyed_core::lowest(std::vector<scored>& all, std::uint64_t wanted) {
    for (scored const& one : all)
        if (std::isnan(one.score))
            fail<value_error>({"evict_to"}, {"the score of key ", one.key, " is NaN"}, {"a number"});
    std::size_t const count = std::min<std::size_t>(all.size(), wanted);
    auto const last = all.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(all.begin(), last, all.end(), [](scored const& a, scored const& b) {
        return a.score != b.score ? a.score < b.score : a.key > b.key;
    });
    std::vector<std::int32_t> out;
    for (auto one = all.begin(); one != last; ++one) out.push_back(one->id);
    std::sort(out.begin(), out.end());
    return out;
}

inline std::uint64_t keyed_core::evict_now(std::span<std::int32_t const> gone) {
    if (!gone.empty()) stored.rows().begin_lap(stored.place());
    catch_up_last(gone.size());
    return evict_rows(gone, clock().step);
}

inline std::uint64_t keyed_core::evict_rows(std::span<std::int32_t const> gone, std::int64_t step) {
    if (options.last_touches) {
        evictions.forget(gone.size(), std::max<std::size_t>(std::size_t{1} << 16, num_rows()));
        auto const keys = row_keys();
        for (std::int32_t const id : gone) evictions.entries.push_back({step, keys[static_cast<std::uint64_t>(id)]});
    }
    return drop(gone);
}

inline std::uint64_t keyed_core::drop(std::span<std::int32_t const> gone) {
    if (gone.empty()) return 0;
    std::uint64_t rows = num_rows();
    auto const keys = row_keys();
    row_columns const columns = stored.segment(0);
    std::byte **const from = row_pointers.data(), **const to = from + columns.size();
    for (std::size_t k = gone.size(); k-- > 0;) {
        auto const id = static_cast<std::uint64_t>(gone[k]);
        index.erase(keys[id]);
        if (id == --rows) continue;
        index.move(keys[rows], static_cast<std::uint32_t>(id));
        find_row(stored.place(), rows, from);
        find_row(stored.place(), id, to);
        copy_row(columns, from, to);
    }
    set_rows(rows);
    counts.evicted += gone.size();
    return gone.size();
}

inline void keyed_core::hold(key_span names) {
    with_memory(names.size(), [&] { held.reserve(names); });
    for (std::uint64_t const key : names) {
        std::uint32_t const times = held.find(key);
        if (times == key_index::none) held.insert(key, 1);
        else held.move(key, times + 1);
    }
}

inline void keyed_core::release(key_span names) {
    for (std::size_t k = 0; k < names.size(); ++k) {
        std::uint32_t const times = held.find(names[k]);
        if (times == key_index::none || times == 0) {
            for (std::uint64_t const key : names.first(k)) held.move(key, held.find(key) + 1);
            fail<value_error>({"keys[", k, "]"}, {names[k], " is not held"}, {"a key that is held"});
        }
        held.move(names[k], times - 1);
    }
    for (std::uint64_t const key : names)
        if (held.find(key) == 0) held.erase(key);
}

// How a keyed_table reports its changes, and how another one applies them.

inline std::vector<std::int32_t> keyed_core::touched_since(std::int64_t since) const {
    auto const now = static_cast<std::uint32_t>(clock().step);
    auto const oldest =
        since == 0 ? UINT32_MAX : static_cast<std::uint32_t>(std::min<std::int64_t>(clock().step - since, UINT32_MAX));
    std::vector<std::int32_t> out;
    std::int32_t row = 0;
    for (std::size_t s = 0; s < stored.segments(); ++s) {
        row_column const& of = stored.segment(s)[key_column() + 1];
        auto const* const last = reinterpret_cast<std::uint32_t const*>(of.data);
        std::size_t const n = of.size;
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
                ids[count] = row + static_cast<std::int32_t>(i);
                count += now - last[i] <= oldest;
            }
            out.insert(out.end(), ids, ids + count);
        }
        row += static_cast<std::int32_t>(n);
    }
    return out;
}

inline std::vector<std::int32_t> keyed_core::begin_changes(row_changes_base& out, std::int64_t since,
                                                           row_content content) {
    require_last_touches("changed_since");
    if (content == row_content::int8 && stored.rows().facts().is_integral)
        fail<value_error>({"changed_since"}, {"the content is int8, and the values are integers"}, {"values or state"});
    std::int64_t const now = clock().step;
    if (since < 0 || since > now)
        fail<value_error>({"changed_since"}, {"step ", since}, {"from 0 to ", now, ", the step of the table"});
    if (since != 0 && since < evictions.since)
        fail<value_error>({"changed_since"},
                          {"step ", since, ", and evictions are remembered from step ", evictions.since, " on"},
                          {"that step or a later one, or 0 for all rows"});
    out.since = since;
    out.until = now;
    out.width = width();
    out.content = content;
    out.progress = stored.rows().progress();
    if (since != 0)
        for (auto const& x : evictions.entries)
            if (x.step >= since) out.evicted.push_back(x.key);
    std::vector<std::int32_t> ids = touched_since(since);
    out.keys.resize(ids.size());
    if (content == row_content::state) {
        if (stored.rows().kept.touches) out.touches.resize(ids.size());
        out.last_touches.resize(ids.size());
        if (options.touch_counts) out.touch_counts.resize(ids.size());
    }
    return ids;
}

inline std::vector<row_column> keyed_core::columns_of(row_changes_base const& changes, row_columns typed) const {
    std::vector<row_column> out = stored.rows().columns();
    row_column* next = out.data();
    auto const take = [&](void const* data, std::size_t size) {
        if (size != 0) next->data = static_cast<std::byte*>(const_cast<void*>(data));
        next->stride = next->row_elements;
        ++next;
    };
    for (row_column const& x : typed) take(x.data, x.size);
    ++next; // stamps: rows are up to date
    take(changes.touches.data(), changes.touches.size());
    take(changes.keys.data(), changes.keys.size());
    take(changes.last_touches.data(), changes.last_touches.size());
    take(changes.touch_counts.data(), changes.touch_counts.size());
    return out;
}

inline void keyed_core::copy_changes(std::span<std::int32_t const> ids, row_content content, row_columns message) {
    table_kernels& by = stored.kernels();
    bool const with_state = content == row_content::state;
    if (with_state) by.catch_up(stored.place(), ids, {clock().step});
    else by.read(stored.place(), ids, {.step = clock().step}, message[0].data);
    std::size_t const parts = by.parts_for(ids.size() * stored.rows().row_bytes()), columns = message.size();
    std::vector<std::byte*> pointers(2 * parts * columns);
    auto const keys = row_keys();
    by.for_each_part(parts, [&](std::size_t p) {
        std::byte** const from = pointers.data() + 2 * p * columns;
        for (std::size_t k = p * ids.size() / parts; k < (p + 1) * ids.size() / parts; ++k) {
            auto const id = static_cast<std::uint64_t>(ids[k]);
            if (!with_state) {
                std::memcpy(message[key_column()].row(k), &keys[id], sizeof keys[id]);
                continue;
            }
            if (k + rows_ahead < ids.size())
                prefetch_memory(&keys[static_cast<std::uint64_t>(ids[k + rows_ahead])], sizeof keys[id]);
            find_row(stored.place(), id, from);
            for (std::size_t i = 0; i < columns; ++i) from[columns + i] = message[i].row(k);
            copy_row(message, from, from + columns);
        }
    });
}

inline void keyed_core::check_changes(row_changes_base const& changes) const {
    if (changes.width != width())
        fail<size_error>({"apply"}, {"the changes are of rows of width ", changes.width}, {width()});
    if (changes.since < 0 || changes.until < changes.since || changes.progress.clock.step != changes.until)
        fail<value_error>({"apply"},
                          {"changes since ", changes.since, " until ", changes.until, ", with a clock at ",
                           changes.progress.clock.step},
                          {"in this order, and the clock at the last"});
    if (changes.until > latest_step)
        fail<value_error>({"apply"}, {"changes until ", changes.until}, {"at most ", latest_step, ", which is 2^62"});
}

inline void keyed_core::apply(row_changes_base const& changes, row_columns message) {
    bool const all = changes.since == 0;
    bool const has_touches = changes.content == row_content::state && stored.rows().kept.touches;
    if (std::size_t const wanted = has_touches ? changes.keys.size() : 0; changes.touches.size() != wanted)
        fail<size_error>({"apply: touches"}, {"has ", changes.touches.size(), " elements"}, {wanted, " in this table"});
    std::int64_t const now = clock().step;
    if (!all && (now < changes.since || now > changes.until))
        fail<sequence_error>({"apply"},
                             {"the changes are of the steps from ", changes.since, " to ", changes.until,
                              ", and this table is at step ", now},
                             {"one of these"});
    if (!all) return take_in(changes, message);
    keyed_core anew = with_memory(0, [&] { return fresh(); });
    anew.counts = all_counts();
    anew.counts.evicted += num_rows();
    with_memory(held.size(), [&] { anew.held = held; });
    anew.take_in(changes, message);
    anew.evictions.since = changes.until; // the log of evictions starts here; earlier ones are unknown
    *this = std::move(anew);
}

// Everything that can throw comes first. This table is at a step of the changes, or new.
inline void keyed_core::take_in(row_changes_base const& changes, row_columns message) {
    row_core& inner = stored.rows();
    row_progress const& progress = changes.progress;
    inner.require_own_history(progress, progress.num_rows, progress.history.size());
    auto const steps = static_cast<std::uint64_t>(changes.until - clock().step);
    std::uint64_t const spared = refresh_cursor::steps_of(progress.max_history);
    if (inner.facts().has_history() && num_rows() != 0 && steps > spared)
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
        stored.reserve(left + new_keys.size());
        evictions.reserve(gone.size());
    });
    // Rows that the new history does not cover catch up by the current one.
    inner.catch_up(stored.place(), 0, num_rows(),
                   {clock().step, static_cast<std::uint32_t>(spared - std::min(spared, steps))});
    catch_up_last(gone.size());

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
    stored.set_rows(rows);
    inner.resume(progress, rows, std::move(history));
    admitter.age(clock().step);
    name_rows(before, added);
    bool const has_state = changes.content == row_content::state;
    auto const touches = last_touches();
    std::byte **const from = row_pointers.data(), **const to = from + message.size();
    auto const place = [&](std::size_t k, bool of_values) {
        find_row(stored.place(), static_cast<std::uint64_t>(scratch_ids[k]), to);
        for (std::size_t i = 0; i < message.size(); ++i) from[i] = of_values && i != 0 ? nullptr : message[i].row(k);
        copy_row(message, from, to);
    };
    if (!has_state)
        for (std::size_t k = 0; k < scratch_ids.size(); ++k) place(k, true);
    for (std::size_t k = 0; k < scratch_ids.size(); ++k) {
        auto const id = static_cast<std::uint64_t>(scratch_ids[k]); // one by one: no pool, which could throw
        stored.kernels().begin(stored.place(), nullptr, id, id + 1,
                               {!has_state, clock().step, static_cast<std::uint32_t>(clock().step)});
        if (touches) touches[static_cast<std::uint64_t>(scratch_ids[k])] = static_cast<std::uint32_t>(clock().step);
        if (has_state) place(k, false);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
