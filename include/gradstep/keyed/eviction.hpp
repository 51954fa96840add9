#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>
#include <gradstep/keyed/core.hpp>

// How a keyed_table evicts rows.
namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::evict_older_than(std::int64_t step) {
    require_last_touches("evict_older_than");
    std::int64_t const now = clock().step;
    return evict_if([&](row_type const& row) { return now - age_of(row) < step; });
}

template <class Updater, class CatchUp>
template <class Chosen>
std::uint64_t keyed_core<Updater, CatchUp>::evict(Chosen const& chosen) {
    stored.require_trained("evict");
    stored.flush();
    return evict_if([&](row_type const& row) { return !is_held(*row.key) && chosen(view_of(row)); });
}

template <class Updater, class CatchUp> std::uint64_t keyed_core<Updater, CatchUp>::evict_to(std::uint64_t rows) {
    require_last_touches("evict_to");
    return evict_lowest(rows, [&](row_type const& row) { return -static_cast<double>(age_of(row)); });
}

template <class Updater, class CatchUp>
template <class Score>
std::uint64_t keyed_core<Updater, CatchUp>::evict_to(std::uint64_t rows, Score const& score) {
    stored.require_trained("evict_to");
    stored.flush();
    return evict_lowest(rows, [&](row_type const& row) { return static_cast<double>(score(view_of(row))); });
}

template <class Updater, class CatchUp>
template <class Chosen>
std::uint64_t keyed_core<Updater, CatchUp>::evict_if(Chosen const& chosen) {
    std::vector<std::int32_t> gone;
    with_memory(num_rows(), [&] {
        auto const rows = row_pointers();
        for (std::uint64_t id = 0; id < num_rows(); ++id) {
            auto const row = rows.at(id);
            if (chosen(row) && !is_held(*row.key)) gone.push_back(static_cast<std::int32_t>(id));
        }
        evictions.reserve(gone.size());
    });
    return evict_now(gone);
}

template <class Updater, class CatchUp>
template <class Score>
std::uint64_t keyed_core<Updater, CatchUp>::evict_lowest(std::uint64_t rows, Score const& score) {
    if (rows >= num_rows()) return 0;
    struct scored {
        double score;
        std::uint64_t key;
        std::int32_t id;
    };
    std::vector<std::int32_t> gone;
    with_memory(num_rows(), [&] {
        std::vector<scored> all;
        auto const at = row_pointers();
        for (std::uint64_t id = 0; id < num_rows(); ++id) {
            auto const row = at.at(id);
            if (is_held(*row.key)) continue;
            all.push_back({score(row), *row.key, static_cast<std::int32_t>(id)});
            if (std::isnan(all.back().score))
                fail<value_error>({"evict_to"}, {"the score of key ", *row.key, " is NaN"}, {"a number"});
        }
        std::size_t const count = std::min<std::size_t>(all.size(), num_rows() - rows);
        auto const last = all.begin() + static_cast<std::ptrdiff_t>(count);
        std::nth_element(all.begin(), last, all.end(), [](scored const& a, scored const& b) {
            return a.score != b.score ? a.score < b.score : a.key > b.key;
        });
        for (auto one = all.begin(); one != last; ++one) gone.push_back(one->id);
        std::sort(gone.begin(), gone.end());
        evictions.reserve(gone.size());
    });
    return evict_now(gone);
}

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::evict_now(std::span<std::int32_t const> gone) {
    if (!gone.empty()) stored.core().begin_lap(stored.binding());
    return evict_rows(gone, clock().step);
}

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::evict_rows(std::span<std::int32_t const> gone, std::int64_t step) {
    if (options.last_touches) {
        evictions.forget(gone.size(), std::max<std::size_t>(std::size_t{1} << 16, num_rows()));
        auto const rows = row_pointers();
        for (std::int32_t const id : gone)
            evictions.entries.push_back({step, *rows.at(static_cast<std::uint64_t>(id)).key});
    }
    return drop(gone);
}

template <class Updater, class CatchUp>
std::uint64_t keyed_core<Updater, CatchUp>::drop(std::span<std::int32_t const> gone) {
    if (gone.empty()) return 0;
    using pack = typename backend::template pack<typename traits::compute>;
    std::uint64_t rows = num_rows();
    auto const catch_up = stored.reader();
    auto const columns = shape().columns();
    on().for_each_part(1, [&](std::size_t) {
        for (std::size_t k = gone.size(); k-- > 0;) {
            auto const id = static_cast<std::uint64_t>(gone[k]);
            auto const gap = catch_up.rows.at(id), last = catch_up.rows.at(--rows);
            index.erase(*gap.key);
            if (id == rows) continue;
            catch_up.template catch_up<pack>(rows);
            index.move(*last.key, static_cast<std::uint32_t>(id));
            copy_row(columns, pointers_of(last).data(), pointers_of(gap).data());
        }
    });
    set_rows(rows);
    counts.evicted += gone.size();
    return gone.size();
}

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::hold(key_span names) {
    with_memory(names.size(), [&] { held.reserve(names); });
    for (std::uint64_t const key : names) {
        std::uint32_t const times = held.find(key);
        if (times == key_index::none) held.insert(key, 1);
        else held.move(key, times + 1);
    }
}

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::release(key_span names) {
    for (std::size_t k = 0; k < names.size(); ++k) {
        std::uint32_t const times = held.find(names[k]);
        if (times == key_index::none || times == 0) {
            for (std::uint64_t const key : names.first(k)) held.move(key, held.find(key) + 1);
            fail<value_error>({"release: keys[", k, "]"}, {names[k], " is not held"}, {"a key that is held"});
        }
        held.move(names[k], times - 1);
    }
    for (std::uint64_t const key : names)
        if (held.find(key) == 0) held.erase(key);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
