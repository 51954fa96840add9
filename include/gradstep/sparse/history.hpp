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
#include <gradstep/core/huge_pages.hpp>
#include <gradstep/sparse/catch_up.hpp>
#include <gradstep/sparse/missed.hpp>
#include <gradstep/sparse/row_progress.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

// What the steps of a run did to a row without gradient, kept for the last `capacity` steps (a power of two), each in the
// memory of the backend that reads it. A row stores only the low 32 bits of the step that it is caught up to: it is never
// more than capacity - 1 steps behind, since a rolling sweep (sparse/lap.hpp) catches up those that would be.
template <class View> concept history_view = requires(View const& view, std::uint32_t stamp) {
    // For kernels: what a row with this stamp missed up to the view's step; sparse/missed.hpp.
    { view.plan(stamp) } -> std::same_as<typename View::missed>;
    { View::missed::moves_state } -> std::convertible_to<bool>;
    { View::missed::reads_state } -> std::convertible_to<bool>;
};
template <class History, class Rule, class Regularizer>
concept history = history_view<typename History::view_type> &&
    requires(History& h, History const& c, Rule const& rule, Regularizer const& regularizer, step_info now,
             std::int64_t t, std::span<double const> numbers, double rate) {
    h.record(rule, regularizer, now);                           // step now.t, of which rows that are away miss
    { c.view(t) } -> std::same_as<typename History::view_type>; // what was missed up to step t
    { History::bytes_per_step } -> std::convertible_to<std::size_t>;
    // For checkpoints: the same in doubles, exactly what later plans read; none where nothing is kept.
    { History::kind } -> std::convertible_to<history_kind>;
    { History::numbers_per_step } -> std::convertible_to<std::size_t>;
    { History::saved_steps(t, std::uint64_t{}) } -> std::same_as<std::uint64_t>; // of how many, given the capacity
    { c.saved(t) } -> std::same_as<std::vector<double>>;
    c.check(t, numbers, rate); // throws for finite ones that no run can have saved; rate: of step t
    h.restore(t, numbers, rate);
};
// Besides that, a view has for the host sum(stamp): by which w (and the slots) give the sum of the row's weights after each
// of the missed steps. It does not compile where there is no closed form.

// The step that a stamp means, and how many steps there are between it and `now`.
struct gap {
    std::uint32_t steps;
    std::uint64_t since;

    GRADSTEP_HD gap(std::uint64_t now, std::uint32_t stamp)
        : steps(static_cast<std::uint32_t>(now) - stamp), since(now - steps) {}
};

// The factors of `decay()` as logarithms, 0 where the rule has none.
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

// Nothing happens to a row that is away: no history is needed.
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

// A sum of many numbers, with what its additions rounded off.
struct long_sum {
    double high = 0, low = 0;

    void add(double x) {
        double const sum = high + x, added = sum - high;
        low += (high - (sum - added)) + (x - added);
        high = sum;
    }
    friend GRADSTEP_HD double operator-(long_sum a, long_sum b) { return (a.high - b.high) + (a.low - b.low); }
};

// A weight of 1 without gradient on its way through a step: by how much it has changed, which beside the 1 would be rounded,
// and the gradient that a coupled decay makes of it.
struct idle_weight_on_its_way {
    double change = 0, gradient = 0;

    void multiply_by_one_and(double x) { change += std::fma(change, x, x); }
};
template <class Regularizer>
void regularize([[maybe_unused]] Regularizer const& regularizer, [[maybe_unused]] step_info now,
                [[maybe_unused]] bool before_rule, [[maybe_unused]] idle_weight_on_its_way& weight) {
    if constexpr (requires { regularizer.first, regularizer.rest; }) { // all_of
        regularize(regularizer.first, now, before_rule, weight);
        regularize(regularizer.rest, now, before_rule, weight);
    } else if constexpr (idle_weight_of<Regularizer>() == idle_weight::scales) {
        if (acts_before<Regularizer> == before_rule)
            weight.multiply_by_one_and(std::expm1(regularizer.shrink(now).log_a));
    } else if constexpr (acts_before<Regularizer>) {
        double w = 1 + weight.change;
        if (before_rule) Regularizer::before(regularizer.template prepare<double>(now), w, weight.gradient);
    }
}

// What a step without gradient makes of w = 1 alone and of each slot = 1 alone, of a rule that is linear in weight, slots
// and gradient, by the rule itself.
template <class Rule, class Regularizer>
matrix<1 + slot_count<Rule>> matrix_of_step(Rule const& rule, Regularizer const& regularizer, step_info now) {
    constexpr std::size_t size = 1 + slot_count<Rule>;
    auto const coeffs = rule.template prepare<double>(now);
    // To (w, slots, g), of which one is 1 and the others are 0.
    auto const apply = [&](std::size_t which) {
        double w = which == 0;
        typename Rule::template state<double> s;
        host_each<size - 1>([&](auto i) { slot<i, Rule>(s) = which == i + 1; });
        Rule::apply(coeffs, w, double(which == size), s);
        std::array<double, size> out = {w};
        host_each<size - 1>([&](auto i) { out[i + 1] = slot<i, Rule>(s); });
        return out;
    };
    idle_weight_on_its_way before, after;
    regularize(regularizer, now, true, before);
    regularize(regularizer, now, false, after);

    matrix<size> out;
    auto const by_weight = apply(0), by_gradient = apply(size);
    for (std::size_t i = 0; i < size; ++i) {
        out.base[i] = i == 0;
        out.at[i][0] = std::fma(by_weight[i], before.change,
                                std::fma(by_gradient[i], before.gradient, by_weight[i] - out.base[i]));
    }
    for (std::size_t k = 1; k < size; ++k) {
        auto const by_slot = apply(k);
        for (std::size_t i = 0; i < size; ++i) out.at[i][k] = by_slot[i];
    }
    for (std::size_t k = 0; k < size; ++k)
        out.at[0][k] = std::fma(after.change, k == 0 ? 1 + out.at[0][0] : out.at[0][k], out.at[0][k]);
    out.center();
    return out;
}

// Two running numbers: L, the sum of log a, and D <- a * D + b, each with what its additions round off. Between two steps
//     q = exp(L - L0),  c = D - q * D0 = (D - D0) - (q - 1) * D0
// is all the maps |w| <- max(0, a * |w| - b) between them in one: 0 is absorbing, so clamping once at the end is exact.
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
        bool since_start = false; // all steps were missed: the ring need not reach so far

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
            gap const gone(now, stamp);
            entry const from = ring[gone.since & mask];
            double total = 0;
            for (std::uint64_t t = gone.since + 1; t <= now; ++t) {
                entry const to = ring[t & mask];
                total += exp_of_negative(to.log - from.log);
            }
            return {total};
        }
    };

    factor_history(Rule const& rule, Regularizer const&, std::uint64_t capacity, double, std::int64_t)
        : ring_(capacity) {
        logs_of_decay(rule, slot_logs_, row_logs_);
        ring_[0] = last_;
    }
    // Throws value_error, before the step, for one whose factor is not positive: it has no logarithm.
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
    // The step before the first that can be missed is one of them.
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
        for (std::size_t i = 0; i < numbers.size(); i += numbers_per_step, ++t)
            ring_[t & mask()] = last_ = {{numbers[i], numbers[i + 1]}, {numbers[i + 2], numbers[i + 3]}};
    }

private:
    // By a coupled decay, which the rule applies: it has no `shrink` of its own.
    static constexpr bool is_pulled = idle_weight_of<Regularizer>() == idle_weight::pulls;

    std::uint64_t mask() const { return ring_.size() - 1; }

    Buffer<entry> ring_;
    entry last_ = {};
    slots slot_logs_;
    row_slots row_logs_;
};

// Products of the steps over blocks of 1, 2, 4, ... of them, so that any range is a product of O(log length) blocks. Inverses
// of prefix products would be O(1) and lose all digits. Block has `later * earlier`.
template <class Block, template <class> class Buffer> class dyadic_ring {
public:
    struct view_type {
        Block const* blocks;
        std::uint64_t capacity;

        // Step t, from 0.
        GRADSTEP_HD Block operator[](std::uint64_t t) const { return blocks[place(capacity, 0, t)]; }
        // Steps [begin, end), in their order.
        GRADSTEP_HD Block product(std::uint64_t begin, std::uint64_t end, Block const& one) const {
            Block early = one, late = one;
            for (std::uint32_t level = 0; begin < end; ++level, begin /= 2, end /= 2) {
                if (begin % 2 != 0) early = blocks[place(capacity, level, begin++)] * early;
                if (end % 2 != 0) late = late * blocks[place(capacity, level, --end)];
            }
            return late * early;
        }
    };

    explicit dyadic_ring(std::uint64_t capacity) : blocks_(2 * capacity), capacity_(capacity) {}

    view_type view() const { return {traits_of<decltype(blocks_)>::data(blocks_), capacity_}; }
    std::uint64_t capacity() const { return capacity_; }
    Block at(std::uint64_t t) const { return blocks_[place(capacity_, 0, t)]; }
    // Step t, from 0, and every block that it completes.
    void put(std::uint64_t t, Block b) {
        for (std::uint32_t level = 0; (capacity_ >> level) != 0; ++level, t /= 2) {
            blocks_[place(capacity_, level, t)] = b;
            if (t % 2 == 0) {
                open_[level] = b;
                return;
            }
            b = b * open_[level];
            if constexpr (requires { b.center(); }) b.center();
        }
    }

private:
    // Level k has the blocks of 2^k steps, capacity / 2^k of them, after those of the levels below.
    static GRADSTEP_HD std::uint64_t place(std::uint64_t capacity, std::uint32_t level, std::uint64_t index) {
        std::uint64_t const blocks = capacity >> level;
        return 2 * (capacity - blocks) + (index & (blocks - 1));
    }

    Buffer<Block> blocks_;
    std::array<Block, 64> open_ = {}; // the first half of the block that is not complete yet, on each level
    std::uint64_t capacity_;
};

// The step's matrix, for rules that are linear in weight, slots and gradient.
template <class Rule, class Regularizer, class T, template <class> class Buffer> class linear_history {
public:
    static constexpr std::size_t size = 1 + slot_count<Rule>;
    using block = matrix<size>;
    static constexpr history_kind kind = history_kind::products;
    // The matrix, and what its diagonal is measured from.
    static constexpr std::size_t numbers_per_step = size * size + size, bytes_per_step = 2 * sizeof(block);

    struct view_type {
        using missed = missed_linear<Rule, Regularizer, T>;
        typename dyadic_ring<block, Buffer>::view_type blocks;
        std::uint64_t now;
        past_step<Rule, Regularizer, T> last;

        GRADSTEP_HD missed plan(std::uint32_t stamp) const {
            gap const gone(now, stamp);
            block const all = blocks.product(gone.since, now, block::identity());
            missed out;
            out.steps = gone.steps;
            for (std::size_t i = 0; i < size; ++i)
                for (std::size_t k = 0; k < size; ++k) out.m[i][k] = T(all.value(i, k));
            out.last = last;
            return out;
        }
        std::array<double, size> sum(std::uint32_t stamp) const {
            gap const gone(now, stamp);
            block so_far = block::identity();
            std::array<double, size> total = {};
            for (std::uint64_t t = gone.since; t < now; ++t) {
                so_far = blocks[t] * so_far;
                for (std::size_t k = 0; k < size; ++k) total[k] += so_far.value(0, k);
            }
            return total;
        }
    };

    linear_history(Rule const& rule, Regularizer const& regularizer, std::uint64_t capacity, double, std::int64_t)
        : rule_(rule), regularizer_(regularizer), blocks_(capacity) {}

    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        blocks_.put(static_cast<std::uint64_t>(now.t) - 1, matrix_of_step(rule, regularizer, now));
        last_ = prepared(now);
    }
    view_type view(std::int64_t now) const { return {blocks_.view(), static_cast<std::uint64_t>(now), last_}; }
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
        static_cast<void>(prepared({now, rate})); // a decay of 1 or more throws
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
};

// The larger of the rates of two ranges of steps.
struct largest_rate {
    double value;
    friend GRADSTEP_HD largest_rate operator*(largest_rate a, largest_rate b) { return b.value > a.value ? b : a; }
};
template <class T> using host_memory_of = std::vector<T, huge_page_allocator<T>>;

// The prepared scalars of every step, to be run again.
template <class Rule, class Regularizer, class T, template <class> class Buffer> class step_history {
    using past = past_step<Rule, Regularizer, T>;
    using slots = typename Rule::template state<double>;
    using row_slots = row_state<Rule, double>;

public:
    static constexpr history_kind kind = history_kind::rates;
    static constexpr std::size_t numbers_per_step = 1, bytes_per_step = sizeof(past) + 2 * sizeof(double);

    struct view_type {
        using missed = missed_steps<Rule, Regularizer, T>;
        past const* ring;
        std::uint64_t mask, now;
        std::uint32_t max_steps;
        double width;
        slots slot_logs;
        row_slots row_logs;
        // Of the host, to find the furthest step.
        typename dyadic_ring<largest_rate, host_memory_of>::view_type rates;
        Rule const* rule;
        Regularizer const* regularizer;

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
        : rule_(rule), regularizer_(regularizer), ring_(capacity), rates_(capacity), width_(row_width),
          max_steps_(static_cast<std::uint32_t>(std::min<std::int64_t>(max_steps, 0xffffffff))) {
        logs_of_decay(rule, slot_logs_, row_logs_);
    }
    void record(Rule const& rule, Regularizer const& regularizer, step_info now) {
        ring_[static_cast<std::uint64_t>(now.t) & mask()] =
            past{now.rate, rule.template prepare<T>(now), regularizer.template prepare<T>(now)};
        rates_.put(static_cast<std::uint64_t>(now.t) - 1, {now.rate});
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
                &regularizer_};
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
            static_cast<void>(regularizer_.template prepare<T>(step_info{++t, rate})); // a decay of 1 or more throws
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

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
