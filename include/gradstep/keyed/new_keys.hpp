#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/keyed/core.hpp>

// A step of a keyed_table: new keys get rows first, and lose them again if the step fails.
namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids,
                                                                std::uint32_t const* sources,
                                                                std::span<storage const> gradients) const {
    if (options.on_nonfinite == nonfinite::propagate || find_nonfinite(on(), gradients) == gradients.size()) return 0;
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (keys[k] == options.ignore_key) continue;
        std::size_t const row = sources == nullptr ? k : sources[k];
        std::size_t const column = find_nonfinite<typename backend::template pack<typename traits::compute>>(
            gradients.subspan(row * width(), width()));
        if (column == width()) continue;
        if (options.on_nonfinite == nonfinite::raise)
            fail<nonfinite_error>({"keys[", k, "]"}, {"the gradient of key ", keys[k], " is not finite in column ",
                                                      column, ", and on_nonfinite is raise: the step is not taken"});
        ids[k] = left_out_row;
        ++count;
    }
    return count;
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::admit(key_span keys, std::span<std::int32_t> ids) {
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
    grow(rows);
    name_rows(before, added);
    stored.core().begin_rows(stored.binding(), &options.initial, before, rows, false);
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::forget_new(std::uint64_t rows_before, keyed_counts const& counts_before) noexcept {
    for (std::uint64_t const key : added) index.erase(key);
    set_rows(rows_before);
    admitter.rollback();
    counts = counts_before;
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::name_rows(std::uint64_t first, key_span keys) {
    auto const rows = row_pointers();
    for (std::size_t k = 0; k < keys.size(); ++k) {
        auto const row = rows.at(first + k);
        *row.key = keys[k];
        if (row.last_touch != nullptr) *row.last_touch = static_cast<std::uint32_t>(clock().step);
        if (row.touch_count != nullptr) *row.touch_count = 0;
    }
}

template <class Updater, class CatchUp>
template <class Refuse>
void keyed_core<Updater, CatchUp>::index_keys(Refuse const& refuse) {
    std::vector<std::uint64_t> const all = keys();
    index.reserve(all);
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (std::uint32_t const at = index.find(all[k]); at != key_index::none)
            refuse({"keys[", k, "] = ", all[k], " appears before, at ", at}, {"distinct keys"});
        index.insert(all[k], static_cast<std::uint32_t>(k));
    }
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const {
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
                          {"distinct keys with duplicates::unique; duplicates::sum adds their gradients"});
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::apply(key_span keys, std::uint32_t const* sources,
                                         std::span<storage const> gradients, step_options const& how) {
    std::int64_t const last_step = clock().step;
    with_memory(keys.size(), [&] { scratch_ids.resize(keys.size()); });
    find(keys, scratch_ids);
    std::uint64_t const left_out = leave_out_nonfinite(keys, scratch_ids, sources, gradients);
    rollback_guard stepping([&, before = num_rows(), counts_before = counts] {
        if (clock().step == last_step) forget_new(before, counts_before);
        else finish_step(scratch_ids); // the application's thread pool threw: parts of the step have run
    });
    admit(keys, scratch_ids);
    if (left_out != 0) std::replace(scratch_ids.begin(), scratch_ids.end(), left_out_row, no_row);
    counts.left_out += left_out;
    naming_keys(keys, scratch_ids, [&] {
        with_memory(keys.size(), [&] {
            stored.core().apply(stored.binding(), std::span<std::int32_t const>(scratch_ids), sources, gradients, how);
        });
    });
    stepping.dismiss();
    finish_step(scratch_ids);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
