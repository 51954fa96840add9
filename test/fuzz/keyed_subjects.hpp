#pragma once
#include <gradstep/keyed_table.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "subjects.hpp"

/// A keyed table with stamps, history, a sketch that ages, evictions, ages and counts of its rows;
/// after so many steps.
using keyed_type = gs::keyed_table<std::remove_const_t<decltype(adagrad)>, gs::exact>;

inline void step(keyed_type& x) {
    std::int64_t const t = x.clock().step;
    auto const key = [](std::int64_t k) { return static_cast<std::uint64_t>(k) * 0x9e3779b97f4a7c15u; };
    std::vector<std::uint64_t> const keys{key(t % 3), key(3 + t % 5), key(t % 64)};
    x.update(keys, std::vector<float>{0.5f, -1, 0.25f, static_cast<float>(t % 64), 0, 1}, {.samples = 2});
    if (t % 8 == 7) x.evict_older_than(t - 5);
}
inline keyed_type keyed(int steps) {
    keyed_type out{adagrad,
                   2,
                   gs::exact{},
                   {.initial = gs::normal{0, 1, 5},
                    .max_history = 16,
                    .admit_after = 2,
                    .sketch_bytes = 64,
                    .sketch_half_life = 4,
                    .touch_counts = true}};
    for (int k = 0; k < steps; ++k) step(out);
    return out;
}

/// Both hold the same bits, and go on with the same.
inline void require_same_run(keyed_type& a, keyed_type&& b) {
    require_same_run(a, std::move(b), [](keyed_type& x) { step(x); });
}
