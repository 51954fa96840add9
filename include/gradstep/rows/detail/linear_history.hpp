#pragma once
#include <gradstep/policy/scheduled.hpp>
#include <gradstep/rows/detail/decay_history.hpp>
#include <gradstep/rows/detail/dyadic_ring.hpp>
#include <gradstep/rows/detail/step_matrix.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Keeps the matrix of each step, for rules that are linear in weight, slots and gradient, and for
// averages of weights: the history of `exact` with a linear rule. A plan is the product of the
// pending steps, in O(log gap). row_updater records each step; kernels read the view.
// `Moves`: the numbers that follow schedules, which are kept for each step.
template <class Rule, class Regularizer, class T, template <class> class Buffer, class Moves = no_moving_numbers>
class linear_history {
    static constexpr bool has_factors = missed_linear<Rule, Regularizer, T>::has_factors;
    using decays = decay_history_of<Rule, Buffer, has_factors ? Moves::of_rule : 0>;
    using moved = moved_numbers<Moves>;

public:
    static constexpr std::size_t size = 1 + slot_count<Rule> - first_linear_slot<Rule>();
    using block = matrix<size>;
    static constexpr history_kind kind = history_kind::products;
    // The matrix, and the numbers from which its diagonal is measured.
    static constexpr std::size_t own_numbers = size * size + size,
                                 numbers_per_step = own_numbers + moved::numbers_per_step + decays::numbers_per_step,
                                 bytes_per_step = 2 * sizeof(block) + moved::bytes_per_step + decays::bytes_per_step;

    struct view_type {
        using missed = missed_linear<Rule, Regularizer, T>;
        typename dyadic_ring<block, Buffer>::view_type blocks;
        std::uint64_t now;
        past_step<Rule, Regularizer, T> last;
        typename decays::view_type of_state;

        GRADSTEP_HD missed plan(std::uint32_t last_step) const {
            gap const gone(now, last_step);
            block const all = blocks.product(gone.since, now, block::identity());
            missed out;
            out.steps = gone.steps;
            for (std::size_t i = 0; i < size; ++i)
                for (std::size_t k = 0; k < size; ++k) out.m[i][k] = T(all.value(i, k));
            out.last = last;
            if constexpr (missed::has_factors)
                each<missed::first_slot>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                    slot<i, Rule>(out.factors) = of_state.template of_slot<T, i>(gone.since, now);
                });
            return out;
        }
    };

    linear_history(Rule const& rule, Regularizer const& regularizer, std::uint64_t capacity, double, std::int64_t)
        : rule_(rule), regularizer_(regularizer), blocks_(capacity), moved_(capacity), decays_(rule, capacity) {}

    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        blocks_.put(static_cast<std::uint64_t>(now.t) - 1, matrix_of_step(rule, regularizer, now));
        last_ = prepared(rule, regularizer, now);
        moved_.record(static_cast<std::uint64_t>(now.t), rule, regularizer);
        decays_.record(static_cast<std::uint64_t>(now.t), rule);
    }
    view_type view(std::int64_t now) const {
        return {blocks_.view(), static_cast<std::uint64_t>(now), last_, decays_.view()};
    }
    static std::uint64_t saved_steps(std::int64_t now, std::uint64_t capacity) {
        return std::min(static_cast<std::uint64_t>(now), capacity - 1) + decays::has_steps;
    }
    std::vector<double> saved(std::int64_t now) const {
        std::vector<double> out;
        auto const end = static_cast<std::uint64_t>(now);
        // Sums of decays include the step before the first one.
        for (std::uint64_t t = end + 1 - saved_steps(now, blocks_.capacity()); t <= end; ++t) {
            block const b = t == 0 ? block{} : blocks_.at(t - 1);
            out.insert(out.end(), &b.at[0][0], &b.at[0][0] + size * size);
            out.insert(out.end(), b.base, b.base + size);
            moved_.append(t, out);
            decays_.append(t, out);
        }
        return out;
    }
    void check(std::int64_t now, std::span<double const> numbers, double rate) const {
        static_cast<void>(last_of(now, numbers, rate)); // throws for a decay of 1 or more
        for (std::size_t i = 0; i < numbers.size(); ++i)
            if (std::size_t const k = i % numbers_per_step;
                k >= size * size && k < own_numbers && numbers[i] != 0 && numbers[i] != 1)
                fail<value_error>({"row_progress.history"}, {"has a diagonal measured from ", numbers[i]}, {"0 or 1"});
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step)
            check_decays<decays>(&numbers[i] + own_numbers + moved::numbers_per_step);
    }
    void restore(std::int64_t now, std::span<double const> numbers, double rate) {
        auto t = static_cast<std::uint64_t>(now) + 1 - numbers.size() / numbers_per_step;
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            block b;
            std::copy_n(&numbers[i], size * size, &b.at[0][0]);
            std::copy_n(&numbers[i + size * size], size, b.base);
            bool const is_before_first = decays::has_steps && i == 0;
            if (!is_before_first) {
                blocks_.put(t - 1, b);
                auto const [rule, regularizer] = policies_at(&numbers[i]);
                moved_.record(t, rule, regularizer);
            }
            decays_.restore(t, &numbers[i] + own_numbers + moved::numbers_per_step);
        }
        if (now > 0) last_ = last_of(now, numbers, rate);
    }

private:
    static past_step<Rule, Regularizer, T> prepared(Rule const& rule, Regularizer const& regularizer, step_info now) {
        return {now.rate, rule.template prepare<T>(now), regularizer.template prepare<T>(now)};
    }
    // The policies with the numbers of a step, which a checkpoint has at `step`.
    std::pair<Rule, Regularizer> policies_at([[maybe_unused]] double const* step) const {
        std::pair<Rule, Regularizer> out(rule_, regularizer_);
        if constexpr (Moves::count != 0) Moves::set(out.first, out.second, step + own_numbers);
        return out;
    }
    // The last step of a checkpoint. Throws value_error for numbers that no step can have.
    past_step<Rule, Regularizer, T> last_of(std::int64_t now, std::span<double const> numbers, double rate) const {
        if (numbers.empty()) return prepared(rule_, regularizer_, {now, rate});
        auto const [rule, regularizer] = policies_at(numbers.data() + numbers.size() - numbers_per_step);
        if constexpr (Moves::count != 0) detail::check(rule), detail::check(regularizer);
        return prepared(rule, regularizer, {now, rate});
    }

    Rule rule_;
    Regularizer regularizer_;
    dyadic_ring<block, Buffer> blocks_;
    past_step<Rule, Regularizer, T> last_ = {};
    moved moved_;
    decays decays_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
