#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include <gradstep/core/hyperparameters.hpp>
#include <gradstep/sparse/table_options.hpp>

namespace gradstep {

/// What a keyed_table does beyond its updater and its catch-up policy. Those up to `id` are as of `table_options`, where
/// `ignore_key` is `ignore_id`.
struct keyed_options {
    /// The values of rows before their first step, and of keys that have no row: a number, or `uniform` or `normal`, drawn by the
    /// key.
    initial_values initial = {};
    /// What a batch does that names a key several times. Integers have no mean.
    gradstep::duplicates duplicates = gradstep::duplicates::sum;
    /// Counts t of the rule's bias corrections for every row by itself.
    bool row_steps = false;
    /// Padding: this key is skipped wherever it appears in updates, and gets no row. For -1 of int64 keys it is 2^64 - 1.
    std::optional<std::uint64_t> ignore_key = {};
    /// For how many steps the history of exact and replay is kept.
    std::int64_t max_history = 0;
    /// What a gradient row that is not finite does, and the largest norm of a row (0: any).
    nonfinite on_nonfinite = nonfinite::propagate;
    double max_norm = 0;
    /// The name of the table in stochastic rounding.
    std::uint64_t id = 0;

    /// Admission. A key gets its row at its n-th appearance in updates, n = `admit_after` from 1 to 65 536, counted by a sketch of
    /// about `sketch_bytes` (0: of 2^20 counters), or from then on with this probability in each step that names it, drawn by (seed,
    /// key, step). Until then it reads as its initial value, and its gradients are dropped. After each `sketch_half_life` steps all
    /// counts are halved, rounded down (0: never; then give the sketch room for the keys of the whole run).
    ///
    /// With w counters in each of the sketch's four rows (sketch_bytes / 4, or / 8 where n > 256) a key is admitted m or more
    /// appearances too early with a probability of at most (N / (m w))^4, N being the appearances of other keys that were counted,
    /// each halved as often as counts were since: at most 2 r sketch_half_life, where r of a step are counted. It is admitted no
    /// later than at its n-th appearance since counts were halved last.
    std::int64_t admit_after = 1;
    double admit_probability = 1;
    std::uint64_t admit_seed = 0;
    std::int64_t sketch_bytes = 0;
    std::int64_t sketch_half_life = 0;
    /// Rows that there may be; a key that comes when the table is full is turned away as if it were not admitted, until rows
    /// are evicted. 0: as many as there can be, 2^31 - 1.
    std::int64_t max_rows = 0;
    /// Keeps the step that last named each row (4 bytes a row), by which `evict_older_than`, `evict_to` and `changed_since` go.
    bool last_touches = true;
    /// Keeps how many steps have named each row (4 bytes a row), for scores of the caller's. Needs `last_touches`.
    bool touch_counts = false;

    static constexpr auto members =
        member_list{member{"max_history", &keyed_options::max_history, ranges::count},
                    member{"admit_after", &keyed_options::admit_after, ranges::positive_count},
                    member{"admit_probability", &keyed_options::admit_probability, ranges::positive_share},
                    member{"sketch_bytes", &keyed_options::sketch_bytes, ranges::count},
                    member{"sketch_half_life", &keyed_options::sketch_half_life, ranges::count},
                    member{"max_rows", &keyed_options::max_rows, ranges::count},
                    member{"on_nonfinite", &keyed_options::on_nonfinite},
                    member{"max_norm", &keyed_options::max_norm, ranges::non_negative}};
};

/// What has happened to the keys of a keyed_table since it was made, across checkpoints. Gradients are counted
/// by rows.
struct keyed_counts {
    std::uint64_t admitted = 0;    ///< rows that began
    std::uint64_t turned_away = 0; ///< gradients dropped because their key was not admitted yet
    std::uint64_t no_room = 0;     ///< gradients dropped because the table had max_rows
    std::uint64_t left_out = 0;    ///< gradients dropped because they were not finite
    std::uint64_t evicted = 0;     ///< rows that were given up

    friend bool operator==(keyed_counts const&, keyed_counts const&) = default;
};

} // namespace gradstep
