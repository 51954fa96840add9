#pragma once
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/rows/table_options.hpp>

namespace gradstep {
/// The options of a keyed_table, besides its updater and its catch-up policy. The options up to
/// `id` are the same as in `table_options`, where `ignore_key` is `ignore_id`.
struct keyed_options {
    /// The values of rows before their first step, and of keys without a row. They are a number, or
    /// `uniform` or `normal`, drawn by key.
    initial_values initial = {};
    /// What an update does with a key that a batch contains several times. Integers have no mean.
    gradstep::duplicates duplicates = gradstep::duplicates::sum;
    /// Whether each row counts its own updates for the rule's bias corrections.
    bool row_steps = false;
    /// The key for padding: updates ignore it, and it gets no row. For int64 keys, -1 is 2^64 - 1.
    std::optional<std::uint64_t> ignore_key = {};
    /// The number of steps that the history of exact and replay keeps.
    std::int64_t max_history = 0;
    /// What an update does with a gradient row that contains NaN or infinity.
    nonfinite on_nonfinite = nonfinite::propagate;
    /// The largest norm of a row; 0 means no limit.
    double max_norm = 0;
    /// The table's id for stochastic rounding and noise.
    std::uint64_t id = 0;

    /// The appearance in updates at which a key gets a row (admission): the n-th one, where n is
    /// `admit_after`, from 1 to 65 536. A sketch counts the appearances. Until then the key reads
    /// as its initial value, and its gradients are dropped.
    ///
    /// Let w be the number of counters in each of the sketch's four rows: sketch_bytes / 4, or / 8
    /// if n > 256. A key is admitted m or more appearances too early with a probability of at most
    /// (N / (m w))^4. N is the number of counted appearances of other keys, each halved as often as
    /// the counts were since: at most 2 r sketch_half_life if r appearances per step are counted.
    /// It is admitted no later than at its n-th appearance since the last halving.
    std::int64_t admit_after = 1;
    /// The probability with which a key gets a row in each step that contains it, from its n-th
    /// appearance on. The draw depends on `admit_seed`, the key and the step.
    double admit_probability = 1;
    /// The seed of the sketch and of the draws.
    std::uint64_t admit_seed = 0;
    /// The approximate size of the sketch in bytes. 0: 2^20 counters.
    std::int64_t sketch_bytes = 0;
    /// The number of steps after which all counts are halved, rounded down. 0: never; the sketch
    /// then needs room for the keys of the whole run.
    std::int64_t sketch_half_life = 0;
    /// The largest number of rows. When the table is full, new keys are rejected as if they were
    /// not admitted, until rows are evicted. 0: the largest possible number, 2^31 - 1.
    std::int64_t max_rows = 0;
    /// Keeps the last step that contained each row (4 bytes per row), which `evict_older_than`,
    /// `evict_to` and `changed_since` need.
    bool last_touches = true;
    /// Keeps the number of steps that contained each row (4 bytes per row), for your own scores.
    /// Needs `last_touches`.
    bool touch_counts = false;

    static constexpr auto hyperparameters = hyperparameter_list{
        hyperparameter{"max_history", &keyed_options::max_history, ranges::count},
        hyperparameter{"admit_after", &keyed_options::admit_after, ranges::positive_count},
        hyperparameter{"admit_probability", &keyed_options::admit_probability, ranges::positive_share},
        hyperparameter{"sketch_bytes", &keyed_options::sketch_bytes, ranges::count},
        hyperparameter{"sketch_half_life", &keyed_options::sketch_half_life, ranges::count},
        hyperparameter{"max_rows", &keyed_options::max_rows, ranges::count},
        hyperparameter{"on_nonfinite", &keyed_options::on_nonfinite},
        hyperparameter{"max_norm", &keyed_options::max_norm, ranges::non_negative}};
};

/// Counts of events of the keys of a keyed_table since its construction, including the time before
/// a checkpoint. Gradients are counted by rows.
struct keyed_counts {
    std::uint64_t admitted = 0;    ///< new rows
    std::uint64_t turned_away = 0; ///< gradients dropped because their key was not admitted yet
    std::uint64_t no_room = 0;     ///< gradients dropped because the table had max_rows rows
    std::uint64_t left_out = 0;    ///< gradients dropped because they contained NaN or infinity
    std::uint64_t evicted = 0;     ///< evicted rows

    friend bool operator==(keyed_counts const&, keyed_counts const&) = default;
};
} // namespace gradstep
