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
#include <gradstep/sparse/missed.hpp>
#include <gradstep/sparse/no_history.hpp>
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/sparse/step_matrix.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// A sum of many numbers, together with the rounding error of its additions.
struct long_sum {
    double high = 0, low = 0;

    void add(double x) {
        double const sum = high + x, added = sum - high;
        low += (high - (sum - added)) + (x - added);
        high = sum;
    }
    friend GRADSTEP_HD double operator-(long_sum a, long_sum b) { return (a.high - b.high) + (a.low - b.low); }
};

// Two running numbers: L, the sum of log a, and D <- a * D + b, each with its rounding error.
// Between two steps
//     q = exp(L - L0),  c = D - q * D0 = (D - D0) - (q - 1) * D0
// combine all the maps |w| <- max(0, a * |w| - b) into one: 0 is absorbing, so clamping once at the
// end is exact.
template <class Rule, class Regularizer, class T, template <class> class Buffer> class factor_history {
    using slots = typename Rule::template state<double>;
    using row_slots = row_state<Rule, double>;

public:
    struct entry {
        long_sum log, shift;
    };
    static constexpr history_kind kind = history_kind::factors;
    static constexpr std::size_t numbers_per_step = 4, bytes_per_step = sizeof(entry);

    struct view_type {
        using missed = missed_factors<Rule, Regularizer, T>;
        entry const* ring;
        std::uint64_t mask, now;
        slots slot_logs;
        row_slots row_logs;
        bool since_start = false; // all steps are pending: the ring need not contain the first one

        GRADSTEP_HD missed plan(std::uint32_t stamp) const {
            gap const gone(now, stamp);
            entry const from = since_start ? entry{} : ring[gone.since & mask], to = ring[now & mask];
            exponential const q = exp_and_less_one(to.log - from.log);
            missed out;
            out.steps = gone.steps;
            out.set(q.value, math::max(math::fnma(q.less_one, from.shift.high, to.shift - from.shift), 0.0));
            if constexpr (missed::moves_state) {
                each<slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                    slot<i, Rule>(out.slots) = power_of<T>(slot<i, Rule>(slot_logs), gone.steps);
                });
                each<row_slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                    constexpr std::size_t count = row_slot_count<Rule>;
                    nth<i, count>(out.row_factors) = power_of<T>(nth<i, count>(row_logs), gone.steps);
                });
            }
            return out;
        }
    };

    factor_history(Rule const& rule, Regularizer const&, std::uint64_t capacity, double, std::int64_t)
        : ring_(capacity) {
        logs_of_decay(rule, slot_logs_, row_logs_);
        ring_[0] = last_;
    }
    // Throws value_error, before the step, if its factor is not positive: it has no logarithm.
    void require_shrinking([[maybe_unused]] Rule const& rule, [[maybe_unused]] Regularizer const& regularizer,
                           [[maybe_unused]] step_info now) const {
        if constexpr (is_pulled)
            if (double const change = matrix_of_step(rule, regularizer, now).value(0, 0); !(change > 0))
                fail<value_error>(
                    {"exact catch-up"},
                    {"a step without gradient at the learning rate ", now.rate, " multiplies the weight by ", change},
                    {"> 0; a coupled l2 needs lr * l2 < 1"});
    }
    void record([[maybe_unused]] Rule const& rule, [[maybe_unused]] Regularizer const& regularizer, step_info now) {
        shrinkage step;
        if constexpr (is_pulled) {
            auto const all = matrix_of_step(rule, regularizer, now);
            step.log_a = all.base[0] == 1 ? std::log1p(all.at[0][0]) : std::log(all.at[0][0]);
        } else if constexpr (requires { regularizer.shrink(now); }) {
            step = regularizer.shrink(now);
        }
        double const less_one = std::expm1(step.log_a), shift = last_.shift.high;
        last_.log.add(step.log_a);
        last_.shift.add(std::fma(less_one, last_.shift.low, std::fma(less_one, shift, step.b)));
        ring_[static_cast<std::uint64_t>(now.t) & mask()] = last_;
    }
    view_type view(std::int64_t now) const {
        return {traits_of<decltype(ring_)>::data(ring_), mask(), static_cast<std::uint64_t>(now), slot_logs_,
                row_logs_};
    }
    std::vector<double> saved(std::int64_t now) const {
        std::vector<double> out;
        auto const last = static_cast<std::uint64_t>(now);
        for (std::uint64_t t = last - std::min(last, mask()); t <= last; ++t) {
            entry const e = ring_[t & mask()];
            out.insert(out.end(), {e.log.high, e.log.low, e.shift.high, e.shift.low});
        }
        return out;
    }
    // Includes the step before the first one that a row can miss.
    static std::uint64_t saved_steps(std::int64_t now, std::uint64_t capacity) {
        return std::min(static_cast<std::uint64_t>(now), capacity - 1) + 1;
    }
    void check(std::int64_t, std::span<double const> numbers, double) const {
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step)
            if ((numbers[i] > 0 && !is_pulled) || numbers[i + 2] < 0)
                fail<value_error>({"row_progress.history"},
                                  {"has a factor's logarithm ", numbers[i], " and a threshold ", numbers[i + 2]},
                                  {"<= 0 and >= 0"});
    }
    void restore(std::int64_t now, std::span<double const> numbers, double) {
        auto t = static_cast<std::uint64_t>(now) + 1 - numbers.size() / numbers_per_step;
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            ring_[t & mask()] = last_ = {{numbers[i], numbers[i + 1]}, {numbers[i + 2], numbers[i + 3]}};
        }
    }

private:
    // The rule applies the coupled decay; the regularizer has no `shrink` of its own.
    static constexpr bool is_pulled = zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::coupled;

    std::uint64_t mask() const { return ring_.size() - 1; }

    Buffer<entry> ring_;
    entry last_ = {};
    slots slot_logs_;
    row_slots row_logs_;
};

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
