#pragma once
#include <gradstep/policy/scheduled.hpp>
#include <gradstep/rows/detail/decay_history.hpp>
#include <gradstep/rows/detail/step_matrix.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Two running numbers: L, the sum of log a, and D <- a * D + b, each with its rounding error.
// Between two steps
//     q = exp(L - L0),  c = D - q * D0 = (D - D0) - (q - 1) * D0
// combine all the maps |w| <- max(0, a * |w| - b) into one: 0 is absorbing, so clamping once at the
// end is exact.
//
// `Moves`: the numbers that follow schedules. The regularizer's part of a step is recorded in any
// case, so only a decay of the state needs more.
template <class Rule, class Regularizer, class T, template <class> class Buffer, class Moves = no_moving_numbers>
class factor_history {
    using decays = decay_history_of<Rule, Buffer, Moves::of_rule>;

public:
    struct entry {
        long_sum log, shift;
    };
    static constexpr history_kind kind = history_kind::factors;
    static constexpr std::size_t numbers_per_step = 4 + decays::numbers_per_step,
                                 bytes_per_step = sizeof(entry) + decays::bytes_per_step;

    struct view_type {
        using missed = missed_factors<Rule, Regularizer, T>;
        entry const* ring;
        std::uint64_t mask, now;
        typename decays::view_type of_state;
        bool since_start = false; // all steps are pending: the ring need not contain the first one

        GRADSTEP_HD missed plan(std::uint32_t last_step) const {
            gap const gone(now, last_step);
            entry const from = since_start ? entry{} : ring[gone.since & mask], to = ring[now & mask];
            exponential const q = exp_and_less_one(to.log - from.log);
            missed out;
            out.steps = gone.steps;
            out.set(q.value, math::max(math::fnma(q.less_one, from.shift.high, to.shift - from.shift), 0.0));
            if constexpr (missed::moves_state) {
                each<slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                    slot<i, Rule>(out.slots) = of_state.template of_slot<T, i>(gone.since, now);
                });
                each<row_slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                    constexpr std::size_t count = row_slot_count<Rule>;
                    nth<i, count>(out.row_factors) = of_state.template of_row_slot<T, i>(gone.since, now);
                });
            }
            return out;
        }
    };

    factor_history(Rule const& rule, Regularizer const&, std::uint64_t capacity, double, std::int64_t)
        : ring_(capacity), decays_(rule, capacity) {
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
        decays_.record(static_cast<std::uint64_t>(now.t), rule);
    }
    view_type view(std::int64_t now) const {
        return {traits_of<decltype(ring_)>::data(ring_), mask(), static_cast<std::uint64_t>(now), decays_.view()};
    }
    std::vector<double> saved(std::int64_t now) const {
        std::vector<double> out;
        auto const last = static_cast<std::uint64_t>(now);
        for (std::uint64_t t = last - std::min(last, mask()); t <= last; ++t) {
            entry const e = ring_[t & mask()];
            out.insert(out.end(), {e.log.high, e.log.low, e.shift.high, e.shift.low});
            decays_.append(t, out);
        }
        return out;
    }
    // Includes the step before the first one that a row can miss.
    static std::uint64_t saved_steps(std::int64_t now, std::uint64_t capacity) {
        return std::min(static_cast<std::uint64_t>(now), capacity - 1) + 1;
    }
    void check(std::int64_t, std::span<double const> numbers, double) const {
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step) {
            check_decays<decays>(&numbers[i] + 4);
            if ((numbers[i] > 0 && !is_pulled) || numbers[i + 2] < 0)
                fail<value_error>({"row_progress.history"},
                                  {"has a factor's logarithm ", numbers[i], " and a threshold ", numbers[i + 2]},
                                  {"<= 0 and >= 0"});
        }
    }
    void restore(std::int64_t now, std::span<double const> numbers, double) {
        auto t = static_cast<std::uint64_t>(now) + 1 - numbers.size() / numbers_per_step;
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            ring_[t & mask()] = last_ = {{numbers[i], numbers[i + 1]}, {numbers[i + 2], numbers[i + 3]}};
            decays_.restore(t, &numbers[i] + 4);
        }
    }

private:
    // The rule applies the coupled decay; the regularizer has no `shrink` of its own.
    static constexpr bool is_pulled = zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::coupled;

    std::uint64_t mask() const { return ring_.size() - 1; }

    Buffer<entry> ring_;
    entry last_ = {};
    decays decays_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
