#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradstep/keyed/core.hpp>

// When the rows of a keyed_table were last named, and how often.
namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::touch(std::span<std::int32_t const> ids) {
    if (!options.last_touches) return;
    auto const rows = places();
    auto const now = static_cast<std::uint32_t>(clock().step);
    for (std::size_t k = 0; k < ids.size(); ++k) {
        constexpr std::size_t ahead = 64; // more than for rows: these are a line or two each
        if (k + ahead < ids.size() && ids[k + ahead] != no_row) {
            auto const later = rows.at(static_cast<std::uint64_t>(ids[k + ahead]));
            rows.prefetch_lines(later.last_touch, 1);
            if (later.touch_count != nullptr) rows.prefetch_lines(later.touch_count, 1);
        }
        if (ids[k] == no_row) continue;
        auto const row = rows.at(static_cast<std::uint64_t>(ids[k]));
        if (row.touch_count != nullptr && *row.last_touch != now) *row.touch_count += *row.touch_count != UINT32_MAX;
        *row.last_touch = now;
    }
    settle_ages(clock().step - 1, clock().step);
}

template <class Updater, class CatchUp> void keyed_core<Updater, CatchUp>::reset(key_span names) {
    std::vector<std::int32_t> ids = found(names);
    std::erase(ids, no_row);
    stored.core().reset(stored.binding(), std::span<std::int32_t const>(ids));
    if (!options.last_touches) return;
    auto const rows = places();
    for (std::int32_t const id : ids)
        *rows.at(static_cast<std::uint64_t>(id)).last_touch = static_cast<std::uint32_t>(clock().step);
}

template <class Updater, class CatchUp>
void keyed_core<Updater, CatchUp>::settle_ages(std::int64_t since, std::int64_t until) {
    constexpr std::int64_t every = std::int64_t{1} << 30, oldest = std::int64_t{1} << 31;
    if (since / every == until / every || !options.last_touches) return;
    auto const rows = places();
    std::int64_t const still = until - clock().step;
    for (std::uint64_t id = 0; id < num_rows(); ++id) {
        auto const row = rows.at(id);
        if (age_of(row) + still > oldest) *row.last_touch = static_cast<std::uint32_t>(until - oldest);
    }
}

template <class Updater, class CatchUp>
keyed_row<Updater> keyed_core<Updater, CatchUp>::view_of(row_type const& row) const {
    keyed_row<Updater> out;
    out.key = *row.key;
    out.values = {row.weight, width()};
    auto const at = pointers_of(row);
    for (std::size_t i = 0; i < Updater::slots; ++i)
        out.state[i] = {reinterpret_cast<state_type*>(at[1 + i]), Updater::is_row_slot(i) ? 1 : width()};
    out.age = row.last_touch == nullptr ? 0 : age_of(row);
    out.touch_count = row.touch_count == nullptr ? 0 : *row.touch_count;
    return out;
}

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
