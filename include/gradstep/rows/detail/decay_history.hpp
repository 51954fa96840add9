#pragma once
#include <gradstep/number/detail/long_sum.hpp>
#include <gradstep/rows/detail/no_history.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The factors by which pending steps multiply the slots of a rule: `decay()` of each step. Every
// history has one. This one is for a constant decay, whose powers need no history.
template <class Rule, template <class> class Buffer, bool moves> class decay_history {
    using slots = typename Rule::template state<double>;
    using row_slots = row_state<Rule, double>;

public:
    static constexpr bool has_steps = false;
    static constexpr std::size_t numbers_per_step = 0, bytes_per_step = 0;

    struct view_type {
        slots slot_logs;
        row_slots row_logs;

        // The factor of slot I, and of row slot I, for the steps from `since + 1` to `now`.
        template <class T, std::size_t I>
        GRADSTEP_HD missed_factor<T> of_slot(std::uint64_t since, std::uint64_t now) const {
            return power_of<T>(slot<I, Rule>(slot_logs), static_cast<std::uint32_t>(now - since));
        }
        template <class T, std::size_t I>
        GRADSTEP_HD missed_factor<T> of_row_slot(std::uint64_t since, std::uint64_t now) const {
            return power_of<T>(nth<I, row_slot_count<Rule>>(row_logs), static_cast<std::uint32_t>(now - since));
        }
    };

    decay_history(Rule const& rule, std::uint64_t) { logs_of_decay(rule, all_.slot_logs, all_.row_logs); }
    view_type view() const { return all_; }
    void record(std::uint64_t, Rule const&) {}
    void append(std::uint64_t, std::vector<double>&) const {}
    void restore(std::uint64_t, double const*) {}
    static bool is_valid(double const*) { return true; }

private:
    view_type all_;
};

// The product of the factors of a slot since the start: the sum of the logarithms of those that are
// not 0, and the number of zeros.
struct decay_sum {
    long_sum log;
    double zeros = 0;

    void multiply_by(double factor) {
        if (factor == 0) ++zeros;
        else log.add(std::log(factor));
    }
    // The product of the factors after `from`, as power_of does it.
    template <class T> GRADSTEP_HD missed_factor<T> since(decay_sum const& from) const {
        if (zeros != from.zeros) return {T(0), infinity<T>};
        double const change = log - from.log;
        return {T(exp_of_negative(change < 0 ? change : 0)), largest_number<T>};
    }
};

// The same for a decay that follows a schedule: a running sum of logarithms for each slot, so that
// a plan needs two entries.
template <class Rule, template <class> class Buffer> class decay_history<Rule, Buffer, true> {
    static constexpr std::size_t of_elements = slot_count<Rule>, of_rows = row_slot_count<Rule>,
                                 all_slots = of_elements + of_rows;

public:
    using entry = std::array<decay_sum, all_slots + 1>; // 0 is not a valid length
    static constexpr bool has_steps = true;
    static constexpr std::size_t numbers_per_step = 3 * all_slots, bytes_per_step = sizeof(entry);

    struct view_type {
        decay_sum const* ring; // all_slots sums for each step
        std::uint64_t mask;
        bool since_start = false; // all steps are pending: the ring need not contain the first one

        template <class T, std::size_t I>
        GRADSTEP_HD missed_factor<T> of_slot(std::uint64_t since, std::uint64_t now) const {
            decay_sum const from = since_start ? decay_sum{} : ring[(since & mask) * all_slots + I];
            return ring[(now & mask) * all_slots + I].template since<T>(from);
        }
        template <class T, std::size_t I>
        GRADSTEP_HD missed_factor<T> of_row_slot(std::uint64_t since, std::uint64_t now) const {
            return of_slot<T, of_elements + I>(since, now);
        }
    };

    decay_history(Rule const&, std::uint64_t capacity) : ring_(capacity * all_slots), mask_(capacity - 1) { put(0); }
    view_type view() const { return {traits_of<decltype(ring_)>::data(ring_), mask_}; }
    // Step t, from 1, with the rule's numbers in that step.
    void record(std::uint64_t t, Rule const& rule) {
        auto const factors = rule.decay();
        host_each<of_elements>([&](auto i) { last_[i].multiply_by(slot<i, Rule>(factors)); });
        if constexpr (of_rows != 0) {
            auto const of_row = rule.row_decay();
            host_each<of_rows>([&](auto i) { last_[of_elements + i].multiply_by(nth<i, of_rows>(of_row)); });
        }
        put(t);
    }
    // The sums after step t, for checkpoints.
    void append(std::uint64_t t, std::vector<double>& out) const {
        for (std::size_t i = 0; i != all_slots; ++i) {
            decay_sum const x = ring_[(t & mask_) * all_slots + i];
            out.insert(out.end(), {x.log.high, x.log.low, x.zeros});
        }
    }
    void restore(std::uint64_t t, double const* numbers) {
        for (std::size_t i = 0; i != all_slots; ++i, numbers += 3) last_[i] = {{numbers[0], numbers[1]}, numbers[2]};
        put(t);
    }
    // Whether a run can have saved these numbers.
    static bool is_valid(double const* numbers) {
        for (std::size_t i = 0; i != all_slots; ++i, numbers += 3)
            if (!(numbers[0] <= 0) || !std::isfinite(numbers[1]) || numbers[2] < 0 ||
                numbers[2] != std::trunc(numbers[2]))
                return false;
        return true;
    }

private:
    void put(std::uint64_t t) {
        for (std::size_t i = 0; i != all_slots; ++i) ring_[(t & mask_) * all_slots + i] = last_[i];
    }

    Buffer<decay_sum> ring_;
    std::uint64_t mask_;
    entry last_ = {};
};

// Throws value_error for sums that no run can have saved.
template <class Decays> void check_decays(double const* numbers) {
    if (!Decays::is_valid(numbers))
        fail<value_error>({"row_progress.history"}, {"has a sum of a decay's logarithms that is ", numbers[0]},
                          {"<= 0, and a count of zeros"});
}

// The history of a rule's decays if `of_rule` of its numbers follow schedules.
template <class Rule, template <class> class Buffer, std::size_t of_rule>
using decay_history_of = decay_history<Rule, Buffer, of_rule != 0 && decays_by_factors<Rule>>;

// The numbers of past steps that follow schedules, for histories that prepare a step once more.
template <class Moves> class moved_numbers {
    using numbers = std::array<double, Moves::count>;

public:
    static constexpr std::size_t numbers_per_step = Moves::count, bytes_per_step = sizeof(double) * Moves::count;

    explicit moved_numbers(std::uint64_t capacity) : ring_(Moves::count == 0 ? 1 : capacity) {}
    template <class Rule, class Regularizer>
    void record([[maybe_unused]] std::uint64_t t, [[maybe_unused]] Rule const& rule,
                [[maybe_unused]] Regularizer const& regularizer) {
        if constexpr (Moves::count != 0) ring_[t & (ring_.size() - 1)] = Moves::of(rule, regularizer);
    }
    void append([[maybe_unused]] std::uint64_t t, [[maybe_unused]] std::vector<double>& out) const {
        if constexpr (Moves::count != 0) {
            numbers const& of = ring_[t & (ring_.size() - 1)];
            out.insert(out.end(), of.begin(), of.end());
        }
    }

private:
    std::vector<numbers> ring_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
