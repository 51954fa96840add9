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
#include <gradstep/sparse/row_progress.hpp>
#include <gradstep/sparse/step_matrix.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ISA {

// What the steps of a run did to a row without gradient, for the last `capacity` steps (a power of
// two), in the memory of the backend that reads it. A row stores only the low 32 bits of the step
// to which it has caught up. It is never more than capacity - 1 steps behind: a rolling sweep
// (sparse/lap.hpp) updates older rows in time.
template <class View> concept history_view = requires(View const& view, std::uint32_t stamp) {
    // For kernels: the pending steps of a row with this stamp, up to the view's step;
    // sparse/missed.hpp.
    { view.plan(stamp) } -> std::same_as<typename View::missed>;
    { View::missed::moves_state } -> std::convertible_to<bool>;
    { View::missed::reads_state } -> std::convertible_to<bool>;
};
template <class History, class Rule, class Regularizer>
concept history = history_view<typename History::view_type> &&
    requires(History& h, History const& c, Rule const& rule, Regularizer const& regularizer, step_info now,
             std::int64_t t, std::span<double const> numbers, double rate) {
    h.record(rule, regularizer, now);                           // step now.t, which inactive rows miss
    { c.view(t) } -> std::same_as<typename History::view_type>; // the pending steps up to step t
    { History::bytes_per_step } -> std::convertible_to<std::size_t>;
    // For checkpoints: the same as doubles, exactly as later plans read them. Empty if nothing is
    // kept.
    { History::kind } -> std::convertible_to<history_kind>;
    { History::numbers_per_step } -> std::convertible_to<std::size_t>;
    // The number of steps, given the capacity.
    { History::saved_steps(t, std::uint64_t{}) } -> std::same_as<std::uint64_t>;
    { c.saved(t) } -> std::same_as<std::vector<double>>;
    c.check(t, numbers, rate); // throws for finite numbers that no run can have saved; rate: of step t
    h.restore(t, numbers, rate);
};
// In addition, a view has sum(stamp) for the host: the coefficients with which w (and the slots)
// give the sum of the row's weights after each pending step. It does not compile if there is no
// closed form.

// The step that a stamp means, and the number of steps between it and `now`.
struct gap {
    std::uint32_t steps;
    std::uint64_t since;

    GRADSTEP_HD gap(std::uint64_t now, std::uint32_t stamp)
        : steps(static_cast<std::uint32_t>(now) - stamp), since(now - steps) {}
};

// The logarithms of the factors of `decay()`; 0 if the rule has none.
template <class Rule>
void logs_of_decay([[maybe_unused]] Rule const& rule, [[maybe_unused]] auto& slot_logs,
                   [[maybe_unused]] auto& row_logs) {
    slot_logs = {};
    row_logs = {};
    if constexpr (decays_by_factors<Rule>) {
        auto const factors = rule.decay();
        host_each<slot_count<Rule>>([&](auto i) { slot<i, Rule>(slot_logs) = std::log(slot<i, Rule>(factors)); });
        if constexpr (row_slot_count<Rule> != 0) {
            auto const of_row = rule.row_decay();
            host_each<row_slot_count<Rule>>([&](auto i) {
                nth<i, row_slot_count<Rule>>(row_logs) = std::log(nth<i, row_slot_count<Rule>>(of_row));
            });
        }
    }
}
// factor^steps from the factor's logarithm; 0^0 is 1.
template <class T> GRADSTEP_HD missed_factor<T> power_of(double log, std::uint32_t steps) {
    return {steps == 0 ? T(1) : T(exp_of_negative(log * steps)),
            log > -infinity<double> ? largest_number<T> : infinity<T>};
}

// For rules and policies under which inactive rows do not change: no history is needed.
template <class T> class no_history {
public:
    static constexpr history_kind kind = history_kind::none;
    static constexpr std::size_t numbers_per_step = 0, bytes_per_step = 0;

    struct view_type {
        struct missed : nothing_missed {
            static constexpr bool moves_state = false, reads_state = false;
            GRADSTEP_HD bool any() const { return false; }
            template <class R> GRADSTEP_HD void row(R&) const {}
        };
        std::uint64_t now;

        GRADSTEP_HD missed plan(std::uint32_t) const { return {}; }
        std::array<double, 1> sum(std::uint32_t stamp) const { return {double(gap(now, stamp).steps)}; }
    };

    template <class... Policies> explicit no_history(Policies const&...) {}
    template <class... Policies> void record(Policies const&...) {}
    view_type view(std::int64_t now) const { return {static_cast<std::uint64_t>(now)}; }
    std::vector<double> saved(std::int64_t) const { return {}; }
    static std::uint64_t saved_steps(std::int64_t, std::uint64_t) { return 0; }
    void check(std::int64_t, std::span<double const>, double) const {}
    void restore(std::int64_t, std::span<double const>, double) {}
};

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
        typename sums_of_steps<1>::view_type sums;
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
        std::array<double, 1> sum(std::uint32_t stamp) const {
            static_assert(idle_weight_of<Regularizer>() != idle_weight::shrinks,
                          "gradstep: the sum of a row over the steps that it missed has no closed form under l1, whose "
                          "elements reach 0 at different steps");
            return sums(gap(now, stamp).since, now,
                        [this](std::uint64_t t) { return factor_of(ring[(t + 1) & mask].log - ring[t & mask].log); });
        }
    };

    factor_history(Rule const& rule, Regularizer const&, std::uint64_t capacity, double, std::int64_t)
        : ring_(capacity), sums_(capacity) {
        logs_of_decay(rule, slot_logs_, row_logs_);
        ring_[0] = last_;
    }
    // Throws value_error, before the step, if its factor is not positive: it has no logarithm.
    void require_shrinking([[maybe_unused]] Rule const& rule, [[maybe_unused]] Regularizer const& regularizer,
                           [[maybe_unused]] step_info now) const {
        if constexpr (is_pulled)
            if (double const change = matrix_of_step(rule, regularizer, now).value(0, 0); !(change > 0))
                fail<value_error>("a step without gradient at the learning rate " + text(now.rate) +
                                  " multiplies the weight by " + text(change) +
                                  ": must be > 0 for exact catch-up; a coupled l2 needs lr * l2 < 1");
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
        sums_.put(static_cast<std::uint64_t>(now.t) - 1, factor_of(step.log_a));
    }
    view_type view(std::int64_t now) const {
        return {traits_of<decltype(ring_)>::data(ring_),
                mask(),
                static_cast<std::uint64_t>(now),
                slot_logs_,
                row_logs_,
                sums_.view()};
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
                fail<value_error>("row_progress.history has a factor's logarithm " + text(numbers[i]) +
                                  " and a threshold " + text(numbers[i + 2]) + ": must be <= 0 and >= 0");
    }
    void restore(std::int64_t now, std::span<double const> numbers, double) {
        auto t = static_cast<std::uint64_t>(now) + 1 - numbers.size() / numbers_per_step;
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            entry const before = last_;
            ring_[t & mask()] = last_ = {{numbers[i], numbers[i + 1]}, {numbers[i + 2], numbers[i + 3]}};
            if (i != 0) sums_.put(t - 1, factor_of(last_.log - before.log));
        }
    }

private:
    // The rule applies the coupled decay; the regularizer has no `shrink` of its own.
    static constexpr bool is_pulled = idle_weight_of<Regularizer>() == idle_weight::pulls;

    static matrix<1> factor_of(double log) {
        matrix<1> out{{{std::expm1(log)}}, {1}};
        out.center();
        return out;
    }
    std::uint64_t mask() const { return ring_.size() - 1; }

    Buffer<entry> ring_;
    entry last_ = {};
    slots slot_logs_;
    row_slots row_logs_;
    sums_of_steps<1> sums_;
};

// Keeps the matrix of each step, for rules that are linear in weight, slots and gradient, and for
// averages of weights: the history of `exact` with a linear rule. A plan is the product of the
// pending steps, in O(log gap). row_updater records each step; kernels read the view.
template <class Rule, class Regularizer, class T, template <class> class Buffer> class linear_history {
    using slots = typename Rule::template state<double>;
    using row_slots = row_state<Rule, double>;

public:
    static constexpr std::size_t size = 1 + slot_count<Rule> - first_linear_slot<Rule>(),
                                 own_size = 1 + first_average_slot<Rule>() - first_linear_slot<Rule>();
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
        typename sums_of_steps<own_size>::view_type sums;

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
        std::array<double, own_size> sum(std::uint32_t stamp) const {
            return sums(gap(now, stamp).since, now, [this](std::uint64_t t) { return without_averages(blocks[t]); });
        }
    };

    linear_history(Rule const& rule, Regularizer const& regularizer, std::uint64_t capacity, double, std::int64_t)
        : rule_(rule), regularizer_(regularizer), blocks_(capacity), sums_(capacity) {
        row_slots none;
        logs_of_decay(rule, slot_logs_, none);
    }

    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        put(static_cast<std::uint64_t>(now.t) - 1, matrix_of_step(rule, regularizer, now));
        last_ = prepared(now);
    }
    view_type view(std::int64_t now) const {
        return {blocks_.view(), static_cast<std::uint64_t>(now), last_, slot_logs_, sums_.view()};
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
                fail<value_error>("row_progress.history has a diagonal measured from " + text(numbers[i]) +
                                  ": must be 0 or 1");
    }
    void restore(std::int64_t now, std::span<double const> numbers, double rate) {
        auto t = static_cast<std::uint64_t>(now) - numbers.size() / numbers_per_step;
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t) {
            block b;
            std::copy_n(&numbers[i], size * size, &b.at[0][0]);
            std::copy_n(&numbers[i + size * size], size, b.base);
            put(t, b);
        }
        if (now > 0) last_ = prepared({now, rate});
    }

private:
    // The part of the matrix that maps the weight and the rule's own slots.
    static matrix<own_size> without_averages(block const& step) {
        matrix<own_size> out;
        for (std::size_t i = 0; i < own_size; ++i) {
            out.base[i] = step.base[i];
            std::copy_n(step.at[i], own_size, out.at[i]);
        }
        return out;
    }
    void put(std::uint64_t t, block const& step) {
        blocks_.put(t, step);
        sums_.put(t, without_averages(step));
    }
    past_step<Rule, Regularizer, T> prepared(step_info now) const {
        return {now.rate, rule_.template prepare<T>(now), regularizer_.template prepare<T>(now)};
    }

    Rule rule_;
    Regularizer regularizer_;
    dyadic_ring<block, Buffer> blocks_;
    past_step<Rule, Regularizer, T> last_ = {};
    slots slot_logs_;
    sums_of_steps<own_size> sums_;
};

// The larger of the rates of two ranges of steps.
struct largest_rate {
    double value;
    friend GRADSTEP_HD largest_rate operator*(largest_rate a, largest_rate b) { return b.value > a.value ? b : a; }
};

// Keeps the prepared scalars of every step, to run the steps again: the history of `replay`. The
// ring contains the last `capacity` steps. A plan refers to the ring. It also contains the step
// that moves a weight furthest, and closed forms for the state and for averages. row_updater
// records each step; kernels read the view.
template <class Rule, class Regularizer, class T, template <class> class Buffer> class step_history {
    using past = past_step<Rule, Regularizer, T>;
    using slots = typename Rule::template state<double>;
    using row_slots = row_state<Rule, double>;
    // How averages change while the weight stays.
    using average_block = matrix<1 + slot_count<Rule> - first_average_slot<Rule>()>;
    using average_ring = dyadic_ring<average_block, Buffer>;

public:
    static constexpr history_kind kind = history_kind::rates;
    static constexpr std::size_t numbers_per_step = 1,
                                 bytes_per_step = sizeof(past) + 2 * sizeof(double) +
                                                  (keeps_average<Rule> ? 2 * sizeof(average_block) : 0);

    struct view_type {
        using missed = missed_steps<Rule, Regularizer, T>;
        past const* ring;
        std::uint64_t mask, now;
        std::uint32_t max_steps;
        double width;
        slots slot_logs;
        row_slots row_logs;
        // On the host: finds the step that moves a weight furthest.
        typename dyadic_ring<largest_rate, host_memory_of>::view_type rates;
        Rule const* rule;
        Regularizer const* regularizer;
        typename average_ring::view_type averages;

        GRADSTEP_HD missed plan(std::uint32_t stamp) const {
            gap const gone(now, stamp);
            missed out;
            out.steps = gone.steps;
            out.repeated = gone.steps < max_steps ? gone.steps : max_steps;
            out.ring = ring;
            out.mask = mask;
            out.first = gone.since + 1;
            out.width = width;
            std::uint32_t const decaying = missed::pulls ? gone.steps - out.repeated : gone.steps;
            each<slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                slot<i, Rule>(out.factors) = power_of<T>(slot<i, Rule>(slot_logs), decaying);
            });
            each<row_slot_count<Rule>>([&](auto i) GRADSTEP_INLINE_LAMBDA {
                constexpr std::size_t count = row_slot_count<Rule>;
                nth<i, count>(out.row_factors) = power_of<T>(nth<i, count>(row_logs), gone.steps);
            });
            if constexpr (keeps_average<Rule>) {
                auto const rest = averages.product(gone.since + out.repeated, now, average_block::identity());
                for (std::size_t i = 0; i <= missed::averages; ++i)
                    for (std::size_t k = 0; k <= missed::averages; ++k) out.rest.at[i][k] = T(rest.value(i, k));
            }
            out.may_stop = false;
#if !defined(__CUDA_ARCH__)
            if constexpr (!missed::pulls && requires { rule->template furthest<T>(step_info{}, now); })
                find_furthest(out);
#endif
            return out;
        }
        std::array<double, 1> sum(std::uint32_t) const {
            static_assert(sizeof(T) == 0, "gradstep: the sum of a row over the steps that it missed has no closed form "
                                          "with replay: use gs::exact");
            return {};
        }

    private:
        void find_furthest(missed& out) const {
            if (out.repeated == 0) return;
            double const largest = rates.product(out.first - 1, out.first - 1 + out.repeated, {0}).value;
            step_info const from{static_cast<std::int64_t>(out.first), largest};
            auto const bound = rule->template furthest<T>(from, from.t + out.repeated - 1);
            if (!bound) return;
            out.may_stop = true;
            out.furthest = {largest, *bound, regularizer->template prepare<T>(from)};
        }
    };

    step_history(Rule const& rule, Regularizer const& regularizer, std::uint64_t capacity, double row_width,
                 std::int64_t max_steps)
        : rule_(rule), regularizer_(regularizer), ring_(capacity), rates_(capacity),
          averages_(keeps_average<Rule> ? capacity : 1), width_(row_width),
          max_steps_(static_cast<std::uint32_t>(std::min<std::int64_t>(max_steps, 0xffffffff))) {
        logs_of_decay(rule, slot_logs_, row_logs_);
    }
    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        ring_[static_cast<std::uint64_t>(now.t) & mask()] =
            past{now.rate, rule.template prepare<T>(now), regularizer.template prepare<T>(now)};
        rates_.put(static_cast<std::uint64_t>(now.t) - 1, {now.rate});
        if constexpr (keeps_average<Rule>)
            averages_.put(static_cast<std::uint64_t>(now.t) - 1, matrix_of_averages(rule, now));
    }
    view_type view(std::int64_t now) const {
        return {traits_of<decltype(ring_)>::data(ring_),
                mask(),
                static_cast<std::uint64_t>(now),
                max_steps_,
                width_,
                slot_logs_,
                row_logs_,
                rates_.view(),
                &rule_,
                &regularizer_,
                averages_.view()};
    }
    static std::uint64_t saved_steps(std::int64_t now, std::uint64_t capacity) {
        return std::min(static_cast<std::uint64_t>(now), capacity - 1);
    }
    std::vector<double> saved(std::int64_t now) const {
        std::vector<double> out;
        auto const end = static_cast<std::uint64_t>(now);
        for (std::uint64_t t = end - saved_steps(now, ring_.size()); t < end; ++t) out.push_back(rates_.at(t).value);
        return out;
    }
    void check(std::int64_t now, std::span<double const> rates, double) const {
        std::int64_t t = now - static_cast<std::int64_t>(rates.size());
        for (double const rate : rates) {
            if (rate < 0) fail<value_error>("row_progress.history has the rate " + text(rate) + ": must be >= 0");
            // Throws for a decay of 1 or more.
            static_cast<void>(regularizer_.template prepare<T>(step_info{++t, rate}));
        }
    }
    void restore(std::int64_t now, std::span<double const> rates, double) {
        std::int64_t t = now - static_cast<std::int64_t>(rates.size());
        for (double const rate : rates) record(rule_, regularizer_, {++t, rate});
    }

private:
    std::uint64_t mask() const { return ring_.size() - 1; }

    Rule rule_;
    Regularizer regularizer_;
    Buffer<past> ring_;
    dyadic_ring<largest_rate, host_memory_of> rates_;
    average_ring averages_; // one unused block if there are no averages
    double width_;
    std::uint32_t max_steps_;
    slots slot_logs_;
    row_slots row_logs_;
};

template <catch_up_form Form, class Rule, class Regularizer, class T, template <class> class Buffer>
using history_of = std::conditional_t<
    Form == catch_up_form::factors, factor_history<Rule, Regularizer, T, Buffer>,
    std::conditional_t<
        Form == catch_up_form::linear, linear_history<Rule, Regularizer, T, Buffer>,
        std::conditional_t<Form == catch_up_form::steps, step_history<Rule, Regularizer, T, Buffer>, no_history<T>>>>;

} // namespace GRADSTEP_ISA
} // namespace detail
} // namespace gradstep
