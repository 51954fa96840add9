#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gradstep/core/buffer.hpp>
#include <gradstep/sparse/catch_up.hpp>
#include <gradstep/sparse/dyadic_ring.hpp>
#include <gradstep/sparse/missed.hpp>
#include <gradstep/sparse/no_history.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/sparse/step_matrix.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// Keeps the matrix of each step, for rules that are linear in weight, slots and gradient, and for
// averages of weights: the history of `exact` with a linear rule. A plan is the product of the
// pending steps, in O(log gap). row_updater records each step; kernels read the view.
template <class Rule, class Regularizer, class T, template <class> class Buffer> class linear_history {
    using slots = typename Rule::template state<double>;
    using row_slots = row_state<Rule, double>;

public:
    static constexpr std::size_t size = 1 + slot_count<Rule> - first_linear_slot<Rule>();
    using block = matrix<size>;
    static constexpr history_kind kind = history_kind::products;
    // The matrix, and the numbers from which its diagonal is measured.
    static constexpr std::size_t numbers_per_step = size * size + size, bytes_per_step = 2 * sizeof(block);

    struct view_type {
        using missed = missed_linear<Rule, Regularizer, T>;
        typename dyadic_ring<block, Buffer>::view_type blocks;
        std::uint64_t now;
        past_step<Rule, Regularizer, T> last;
        slots slot_logs;

        GRADSTEP_HD missed plan(std::uint32_t stamp) const {
            gap const gone(now, stamp);
            block const all = blocks.product(gone.since, now, block::identity());
            missed out;
            out.steps = gone.steps;
            for (std::size_t i = 0; i < size; ++i)
                for (std::size_t k = 0; k < size; ++k) out.m[i][k] = T(all.value(i, k));
            out.last = last;
            if constexpr (missed::has_factors)
                each<missed::first_slot>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                    slot<i, Rule>(out.factors) = power_of<T>(slot<i, Rule>(slot_logs), gone.steps);
                });
            return out;
        }
    };

    linear_history(Rule const& rule, Regularizer const& regularizer, std::uint64_t capacity, double, std::int64_t)
        : rule_(rule), regularizer_(regularizer), blocks_(capacity) {
        row_slots none;
        logs_of_decay(rule, slot_logs_, none);
    }

    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        blocks_.put(static_cast<std::uint64_t>(now.t) - 1, matrix_of_step(rule, regularizer, now));
        last_ = prepared(now);
    }
    view_type view(std::int64_t now) const {
        return {blocks_.view(), static_cast<std::uint64_t>(now), last_, slot_logs_};
    }
    static std::uint64_t saved_steps(std::int64_t now, std::uint64_t capacity) {
        return std::min(static_cast<std::uint64_t>(now), capacity - 1);
    }
    std::vector<double> saved(std::int64_t now) const {
        std::vector<double> out;
        auto const end = static_cast<std::uint64_t>(now);
        for (std::uint64_t t = end - saved_steps(now, blocks_.capacity()); t < end; ++t) {
            block const b = blocks_.at(t);
            out.insert(out.end(), &b.at[0][0], &b.at[0][0] + size * size);
            out.insert(out.end(), b.base, b.base + size);
        }
        return out;
    }
    void check(std::int64_t now, std::span<double const> numbers, double rate) const {
        static_cast<void>(prepared({now, rate})); // throws for a decay of 1 or more
        for (std::size_t i = 0; i < numbers.size(); ++i)
            if (i % numbers_per_step >= size * size && numbers[i] != 0 && numbers[i] != 1)
                fail<value_error>({"row_progress.history"}, {"has a diagonal measured from ", numbers[i]}, {"0 or 1"});
    }
    void restore(std::int64_t now, std::span<double const> numbers, double rate) {
        auto t = static_cast<std::uint64_t>(now) - numbers.size() / numbers_per_step;
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            block b;
            std::copy_n(&numbers[i], size * size, &b.at[0][0]);
            std::copy_n(&numbers[i + size * size], size, b.base);
            blocks_.put(t, b);
        }
        if (now > 0) last_ = prepared({now, rate});
    }

private:
    past_step<Rule, Regularizer, T> prepared(step_info now) const {
        return {now.rate, rule_.template prepare<T>(now), regularizer_.template prepare<T>(now)};
    }

    Rule rule_;
    Regularizer regularizer_;
    dyadic_ring<block, Buffer> blocks_;
    past_step<Rule, Regularizer, T> last_ = {};
    slots slot_logs_;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
