#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/keyed/table.hpp>

// A step of a keyed_table: new keys get rows first, and lose them again if the step fails.
namespace gradstep {
inline namespace GRADSTEP_ISA {

template <class Updater, class CatchUp>
std::uint64_t keyed_table<Updater, CatchUp>::leave_out_nonfinite(key_span keys, std::span<std::int32_t> ids,
                                                                 std::uint32_t const* sources,
                                                                 std::span<storage const> gradients) const {
    if (options_.on_nonfinite == nonfinite::propagate || detail::find_nonfinite(on(), gradients) == gradients.size())
        return 0;
    std::uint64_t count = 0;
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (keys[k] == options_.ignore_key) continue;
        std::size_t const row = sources == nullptr ? k : sources[k];
        std::size_t const column = detail::find_nonfinite<typename backend::template pack<typename traits::compute>>(
            gradients.subspan(row * width(), width()));
        if (column == width()) continue;
        if (options_.on_nonfinite == nonfinite::raise)
            detail::fail<nonfinite_error>({"the gradient of keys[", k, "] = ", keys[k], " is not finite in column ",
                                           column, ", and on_nonfinite is raise: the step is not taken"});
        ids[k] = left_out_row;
        ++count;
    }
    return count;
}

template <class Updater, class CatchUp>
void keyed_table<Updater, CatchUp>::admit(key_span keys, std::span<std::int32_t> ids) {
    std::uint64_t const before = num_rows(), most = this->most();
    added_.clear();
    if (count_new(keys, ids) == 0) return;
    with_memory(keys.size(), [&] {
        new_.clear();
        for (std::size_t k = 0; k < keys.size(); ++k)
            if (is_new(keys[k], ids[k])) new_.push_back(keys[k]);
        admission_.reserve(new_.size());
        std::sort(new_.begin(), new_.end());
        new_.erase(std::unique(new_.begin(), new_.end()), new_.end());
        added_.reserve(new_.size());
        index_.reserve(new_);
    });
    std::uint64_t rows = before;
    auto const step = static_cast<std::uint64_t>(clock().step + 1);
    for (std::size_t k = 0; k < keys.size(); ++k) {
        if (!is_new(keys[k], ids[k])) continue;
        std::uint32_t slot = index_.find(keys[k]); // it may have been added earlier in this batch
        if (slot == detail::key_index::none) {
            if (!admission_.admits(keys[k], step)) {
                ++counts_.turned_away;
                continue;
            }
            if (rows >= most) {
                ++counts_.no_room;
                continue;
            }
            slot = static_cast<std::uint32_t>(rows++);
            index_.insert(keys[k], slot);
            added_.push_back(keys[k]);
            ++counts_.admitted;
        }
        ids[k] = static_cast<std::int32_t>(slot);
    }
    if (rows == before) return;
    grow(rows);
    name_rows(before, added_);
    rows_.core_.begin_rows(rows_.binding(), &options_.initial, before, rows, false);
}

template <class Updater, class CatchUp>
void keyed_table<Updater, CatchUp>::forget_new(std::uint64_t rows_before, keyed_counts const& counts_before) noexcept {
    for (std::uint64_t const key : added_) index_.erase(key);
    set_rows(rows_before);
    admission_.rollback();
    counts_ = counts_before;
}

template <class Updater, class CatchUp>
void keyed_table<Updater, CatchUp>::name_rows(std::uint64_t first, key_span keys) {
    auto const rows = places();
    for (std::size_t k = 0; k < keys.size(); ++k) {
        auto const row = rows.at(first + k);
        *row.key = keys[k];
        if (row.last_touch != nullptr) *row.last_touch = static_cast<std::uint32_t>(clock().step);
        if (row.touch_count != nullptr) *row.touch_count = 0;
    }
}

template <class Updater, class CatchUp>
template <class Refuse>
void keyed_table<Updater, CatchUp>::index_keys(Refuse const& refuse) {
    std::vector<std::uint64_t> const all = keys();
    index_.reserve(all);
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (std::uint32_t const at = index_.find(all[k]); at != detail::key_index::none)
            refuse({"keys[", k, "] = ", all[k], ": appears before, at ", at});
        index_.insert(all[k], static_cast<std::uint32_t>(k));
    }
}

template <class Updater, class CatchUp>
void keyed_table<Updater, CatchUp>::refuse_duplicate(key_span keys, std::span<std::int32_t const> ids) const {
    if (options_.duplicates != duplicates::unique) return;
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
        detail::fail<value_error>({"keys[", first, "] = ", keys[first], ": appears before, at position ", before,
                                   "; duplicates::unique needs distinct keys, duplicates::sum adds their "
                                   "gradients"});
}

template <class Updater, class CatchUp>
void keyed_table<Updater, CatchUp>::apply(key_span keys, std::uint32_t const* sources,
                                          std::span<storage const> gradients, step_options const& options) {
    std::int64_t const last_step = clock().step;
    with_memory(keys.size(), [&] { ids_.resize(keys.size()); });
    find(keys, ids_);
    std::uint64_t const left_out = leave_out_nonfinite(keys, ids_, sources, gradients);
    detail::rollback_guard stepping([&, before = num_rows(), counts = counts_] {
        if (clock().step == last_step) forget_new(before, counts);
        else finish_step(ids_); // the application's thread pool threw: parts of the step have run
    });
    admit(keys, ids_);
    if (left_out != 0) std::replace(ids_.begin(), ids_.end(), left_out_row, no_row);
    counts_.left_out += left_out;
    naming_keys(keys, ids_, [&] {
        with_memory(keys.size(), [&] {
            rows_.core_.apply(rows_.binding(), std::span<std::int32_t const>(ids_), sources, gradients, options);
        });
    });
    stepping.dismiss();
    finish_step(ids_);
}

} // namespace GRADSTEP_ISA
} // namespace gradstep
