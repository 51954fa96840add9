#pragma once
#include <gradstep/policy/scheduled.hpp>
#include <gradstep/rows/detail/decay_history.hpp>
#include <gradstep/rows/detail/dyadic_ring.hpp>
#include <gradstep/rows/detail/step_matrix.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The larger of the rates of two ranges of steps.
struct largest_rate {
    double value;
    friend GRADSTEP_HD largest_rate operator*(largest_rate a, largest_rate b) { return b.value > a.value ? b : a; }
};

// Keeps the prepared scalars of every step, to run the steps again: the history of `replay`. The
// ring contains the last `capacity` steps. A plan refers to the ring. It also contains the step
// that moves a weight furthest, and closed forms for the state and for averages. row_updater
// records each step; kernels read the view. `Moves`: the numbers that follow schedules, which are
// kept for each step; a step that moves a weight furthest is then unknown.
template <class Rule, class Regularizer, class T, template <class> class Buffer, class Moves = no_moving_numbers>
class step_history {
    using past = past_step<Rule, Regularizer, T>;
    using decays = decay_history_of<Rule, Buffer, Moves::of_rule>;
    using moved = moved_numbers<Moves>;
    // How averages change while the weight stays.
    using average_block = matrix<1 + slot_count<Rule> - first_average_slot<Rule>()>;
    using average_ring = dyadic_ring<average_block, Buffer>;

public:
    static constexpr history_kind kind = history_kind::rates;
    // The rate, the numbers that follow schedules, and the sums of a moving decay.
    static constexpr std::size_t numbers_per_step = 1 + moved::numbers_per_step + decays::numbers_per_step,
                                 bytes_per_step = sizeof(past) + 2 * sizeof(double) + moved::bytes_per_step +
                                                  decays::bytes_per_step +
                                                  (keeps_average<Rule> ? 2 * sizeof(average_block) : 0);

    struct view_type {
        using missed = pending_steps<Rule, Regularizer, T>;
        past const* ring;
        std::uint64_t mask, now;
        std::uint32_t max_steps;
        double width;
        typename decays::view_type of_state;
        // On the host: finds the step that moves a weight furthest.
        typename dyadic_ring<largest_rate, host_memory_of>::view_type rates;
        Rule const* rule;
        Regularizer const* regularizer;
        typename average_ring::view_type averages;

        GRADSTEP_HD missed plan(std::uint32_t last_step) const {
            gap const gone(now, last_step);
            missed out;
            out.steps = gone.steps;
            out.repeated = gone.steps < max_steps ? gone.steps : max_steps;
            out.ring = ring;
            out.mask = mask;
            out.first = gone.since + 1;
            out.width = width;
            std::uint64_t const decaying_since = missed::pulls ? gone.since + out.repeated : gone.since;
            each<slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                slot<i, Rule>(out.factors) = of_state.template of_slot<T, i>(decaying_since, now);
            });
            each<row_slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                constexpr std::size_t count = row_slot_count<Rule>;
                nth<i, count>(out.row_factors) = of_state.template of_row_slot<T, i>(gone.since, now);
            });
            if constexpr (keeps_average<Rule>) {
                auto const rest = averages.product(gone.since + out.repeated, now, average_block::identity());
                for (std::size_t i = 0; i <= missed::averages; ++i)
                    for (std::size_t k = 0; k <= missed::averages; ++k) out.rest.at[i][k] = T(rest.value(i, k));
            }
            out.may_stop = false;
#if !defined(__CUDA_ARCH__)
            if constexpr (Moves::count == 0 && !missed::pulls &&
                          requires { rule->template step_bound<T>(step_info{}, now); })
                find_step_bound(out);
#endif
            return out;
        }

    private:
        void find_step_bound(missed& out) const {
            if (out.repeated == 0) return;
            double const largest = rates.product(out.first - 1, out.first - 1 + out.repeated, {0}).value;
            step_info const from{static_cast<std::int64_t>(out.first), largest};
            auto const bound = rule->template step_bound<T>(from, from.t + out.repeated - 1);
            if (!bound) return;
            out.may_stop = true;
            out.step_bound = {largest, *bound, regularizer->template prepare<T>(from)};
        }
    };

    step_history(Rule const& rule, Regularizer const& regularizer, std::uint64_t capacity, double row_width,
                 std::int64_t max_steps)
        : rule_(rule), regularizer_(regularizer), ring_(capacity), rates_(capacity),
          averages_(keeps_average<Rule> ? capacity : 1), moved_(capacity), decays_(rule, capacity), width_(row_width),
          max_steps_(static_cast<std::uint32_t>(std::min<std::int64_t>(max_steps, 0xffffffff))) {}
    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        ring_[static_cast<std::uint64_t>(now.t) & mask()] =
            past{now.rate, rule.template prepare<T>(now), regularizer.template prepare<T>(now)};
        rates_.put(static_cast<std::uint64_t>(now.t) - 1, {now.rate});
        if constexpr (keeps_average<Rule>)
            averages_.put(static_cast<std::uint64_t>(now.t) - 1, matrix_of_averages(rule, now));
        moved_.record(static_cast<std::uint64_t>(now.t), rule, regularizer);
        decays_.record(static_cast<std::uint64_t>(now.t), rule);
    }
    view_type view(std::int64_t now) const {
        return {traits_of<decltype(ring_)>::data(ring_),
                mask(),
                static_cast<std::uint64_t>(now),
                max_steps_,
                width_,
                decays_.view(),
                rates_.view(),
                &rule_,
                &regularizer_,
                averages_.view()};
    }
    static std::uint64_t saved_steps(std::int64_t now, std::uint64_t capacity) {
        return std::min(static_cast<std::uint64_t>(now), capacity - 1) + decays::has_steps;
    }
    std::vector<double> saved(std::int64_t now) const {
        std::vector<double> out;
        auto const end = static_cast<std::uint64_t>(now);
        // Sums of decays include the step before the first one.
        for (std::uint64_t t = end + 1 - saved_steps(now, ring_.size()); t <= end; ++t) {
            out.push_back(t == 0 ? 0 : rates_.at(t - 1).value);
            moved_.append(t, out);
            decays_.append(t, out);
        }
        return out;
    }
    void check(std::int64_t now, std::span<double const> numbers, double) const {
        std::int64_t t = first_of(now, numbers);
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            double const rate = numbers[i];
            if (rate < 0) fail<value_error>({"row_progress.history"}, {"has the rate ", rate}, {">= 0"});
            check_decays<decays>(&numbers[i] + 1 + moved::numbers_per_step);
            if (is_before_first(i)) continue;
            auto const [rule, regularizer] = policies_at(&numbers[i]);
            if constexpr (Moves::count != 0) detail::check(rule), detail::check(regularizer);
            // Throws for a decay of 1 or more.
            static_cast<void>(regularizer.template prepare<T>(step_info{t, rate}));
        }
    }
    void restore(std::int64_t now, std::span<double const> numbers, double) {
        std::int64_t t = first_of(now, numbers);
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            auto const [rule, regularizer] = policies_at(&numbers[i]);
            if (!is_before_first(i)) record(rule, regularizer, {t, numbers[i]});
            decays_.restore(static_cast<std::uint64_t>(t), &numbers[i] + 1 + moved::numbers_per_step);
        }
    }

private:
    // The first step of a checkpoint, and whether it is the one before the first that a row can
    // miss.
    static std::int64_t first_of(std::int64_t now, std::span<double const> numbers) {
        return now + 1 - static_cast<std::int64_t>(numbers.size() / numbers_per_step);
    }
    static bool is_before_first(std::size_t i) { return decays::has_steps && i == 0; }
    // The policies with the numbers of a step, which a checkpoint has at `step`.
    std::pair<Rule, Regularizer> policies_at([[maybe_unused]] double const* step) const {
        std::pair<Rule, Regularizer> out(rule_, regularizer_);
        if constexpr (Moves::count != 0) Moves::set(out.first, out.second, step + 1);
        return out;
    }
    std::uint64_t mask() const { return ring_.size() - 1; }

    Rule rule_;
    Regularizer regularizer_;
    Buffer<past> ring_;
    dyadic_ring<largest_rate, host_memory_of> rates_;
    average_ring averages_; // one unused block if there are no averages
    moved moved_;
    decays decays_;
    double width_;
    std::uint32_t max_steps_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
