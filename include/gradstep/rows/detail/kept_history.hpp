#pragma once
#include <gradstep/rows/detail/history.hpp>
#include <gradstep/rows/detail/restoring.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// What a table keeps of past steps for inactive rows: the history, the number of steps in it, and
// the sweep that visits every row before the history loses a step that the row needs. It belongs to
// a row_updater, which passes its updater to calls that read the policies.
template <class Updater, class CatchUp> class kept_history {
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    using backend_type = typename Updater::backend_type;
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    template <class T> using buffer = typename backend_type::template table_buffer<T>;

public:
    static constexpr catch_up_form form = form_of<CatchUp, rule_type, regularizer_type>();
    using history_type =
        history_of<form, rule_type, regularizer_type, compute, buffer, typename Updater::moving_numbers>;
    using view_type = typename history_type::view_type;
    static_assert(history<history_type, rule_type, regularizer_type>);
    static constexpr bool has_steps = history_type::numbers_per_step != 0;

    kept_history(Updater const& of, CatchUp const& catch_up, table_options const& options, std::uint64_t row_count,
                 std::size_t row_width)
        : width_(row_width), max_steps_(max_steps_of(catch_up)), capacity_(capacity_for(options, row_count)),
          history_(made(of, capacity_)), cursor_(capacity_) {}

    std::uint64_t capacity() const { return capacity_; }
    double rate() const { return rate_; }
    view_type view(std::int64_t step) const { return history_.view(step); }

    // Extends the history to the capacity for this number of rows. Throws memory_error, and nothing
    // has changed.
    void grow(Updater const& of, table_options const& options, std::uint64_t row_count) {
        std::uint64_t const capacity = capacity_for(options, row_count);
        if (capacity <= capacity_) return;
        std::int64_t const step = of.clock().step;
        history_type larger = made(of, capacity);
        larger.restore(step, history_.saved(step), rate_);
        history_ = std::move(larger);
        capacity_ = capacity;
        cursor_.extend(capacity);
    }
    // Removes the rows from `row_count` on.
    void shrink(std::uint64_t row_count) { cursor_.shrink(row_count); }

    // Begins a new lap of the sweep. No row can have more than spared_steps() pending steps.
    void restart() { cursor_.restart(); }

    // The rows [first, second) that the next step visits, and the number of pending steps up to
    // which it skips a row.
    std::pair<std::uint64_t, std::uint64_t> due(std::uint64_t row_count) const {
        if constexpr (!has_steps) return {0, 0};
        else return cursor_.due(row_count);
    }
    std::uint64_t spared_steps() const { return cursor_.steps(); }
    // Whether rows that begin like this have all steps so far pending. Throws value_error if the
    // history does not contain all of them.
    bool has_all_steps(new_rows begin, std::int64_t step) const {
        constexpr bool has_totals = history_type::kind == history_kind::factors;
        auto const steps = static_cast<std::uint64_t>(step);
        if (!has_steps || begin == new_rows::as_of_now || steps == 0) return false;
        if (!has_totals && steps >= capacity_)
            fail<value_error>({"new_rows::since_the_start"},
                              {"at step ", steps, " the history has only the last ", capacity_ - 1, " steps"},
                              {"a longer table_options.max_history, or new_rows::as_of_now"});
        return true;
    }

    // Throws value_error for a step that the history cannot keep.
    void require_kept([[maybe_unused]] Updater const& of, [[maybe_unused]] step_info now) const {
        if constexpr (requires { history_.require_shrinking(of.rule(), of.regularizer(), now); })
            history_.require_shrinking(of.rule(), of.regularizer(), now);
        if constexpr (has_steps && Updater::moving_numbers::of_rule != 0 && requires { of.rule().check_decay(); })
            of.rule().check_decay();
    }
    // From now on, inactive rows miss the step.
    void record(Updater const& of, step_info now, std::uint64_t row_count) {
        if constexpr (has_steps) cursor_.advance(row_count);
        history_.record(of.rule(), of.regularizer(), now);
        rate_ = now.rate;
    }

    // For checkpoints: where it stands, and the history that continues from there. `resumed` throws
    // value_error for numbers that no run can have saved.
    row_progress progress(clock at, std::uint64_t row_count) const {
        return {at,
                row_count,
                history_type::kind,
                capacity_,
                cursor_.row(),
                cursor_.rows(),
                rate_,
                history_.saved(at.step)};
    }
    kept_history resumed(Updater const& of, row_progress const& from, refresh_cursor const& at) const {
        require_finite_history(from);
        kept_history out(*this, of, from, at);
        out.history_.check(from.clock.step, from.history, from.rate);
        out.history_.restore(from.clock.step, from.history, from.rate);
        return out;
    }

    // Throws value_error for a row that has caught up to a future step, or to a step that the
    // history will have lost when the sweep visits the row.
    template <class Shape, class Memory>
    void require_stamps(backend_type const& backend, Shape const& shape, Memory const& rows, row_progress const& from,
                        refresh_cursor const& at) const {
        std::uint64_t first = 0;
        std::vector<std::uint32_t> copied;
        shape.each_segment(rows, [&](Memory const& segment) {
            std::span<std::uint32_t const> stamps = segment.stamps;
            if constexpr (!std::is_same_v<typename backend_type::memory_space, host_memory>) {
                copied.resize(stamps.size());
                backend.copy_to_host(stamps, std::span<std::uint32_t>(copied));
                stamps = copied;
            }
            std::size_t const stride = std::max<std::size_t>(1, segment.strides.stamps);
            first = detail::require_stamps(first, stamps, stride, from, at, has_steps);
        });
    }

private:
    kept_history(kept_history const& like, Updater const& of, row_progress const& from, refresh_cursor const& at)
        : width_(like.width_), max_steps_(like.max_steps_), capacity_(from.max_history), history_(made(of, capacity_)),
          cursor_(at), rate_(from.rate) {}

    static std::int64_t max_steps_of([[maybe_unused]] CatchUp const& catch_up) {
        if constexpr (std::same_as<CatchUp, replay>) return catch_up.max_steps;
        else return 0;
    }
    static std::uint64_t capacity_for(table_options const& options, std::uint64_t row_count) {
        constexpr bool rounds_coarsely = sizeof(typename traits::storage) < sizeof(compute) && !traits::has_master;
        return has_steps ? history_capacity(options, row_count, rounds_coarsely) : 1;
    }
    history_type made(Updater const& of, std::uint64_t capacity) const {
        return rethrow_as<std::bad_alloc>(
            [&] {
                return history_type(of.rule(), of.regularizer(), capacity, static_cast<double>(width_), max_steps_);
            },
            [&](auto const&) {
                fail<memory_error>({"max_history"},
                                   {"a history of ", capacity, " steps needs ", capacity * history_type::bytes_per_step,
                                    " bytes, which the system does not give"});
            });
    }

    std::size_t width_;
    std::int64_t max_steps_;
    std::uint64_t capacity_;
    history_type history_;
    refresh_cursor cursor_;
    double rate_ = 0; // of the last step
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
