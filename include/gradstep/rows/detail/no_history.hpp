#pragma once
#include <gradstep/memory/buffer.hpp>
#include <gradstep/rows/detail/missed.hpp>
#include <gradstep/rows/row_progress.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The step that a stored last step means, and the number of steps between it and `now`.
struct gap {
    std::uint32_t steps;
    std::uint64_t since;

    GRADSTEP_HD gap(std::uint64_t now, std::uint32_t last_step)
        : steps(static_cast<std::uint32_t>(now) - last_step), since(now - steps) {}
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
        struct missed : no_missed_steps {
            static constexpr bool moves_state = false, reads_state = false;
            GRADSTEP_HD bool any() const { return false; }
            template <class R> GRADSTEP_HD void row(R&) const {}
        };
        std::uint64_t now;

        GRADSTEP_HD missed plan(std::uint32_t) const { return {}; }
    };

    template <class... Policies> explicit no_history(Policies const&...) {}
    template <class... Policies> void record(Policies const&...) {}
    view_type view(std::int64_t now) const { return {static_cast<std::uint64_t>(now)}; }
    std::vector<double> saved(std::int64_t) const { return {}; }
    static std::uint64_t saved_steps(std::int64_t, std::uint64_t) { return 0; }
    void check(std::int64_t, std::span<double const>, double) const {}
    void restore(std::int64_t, std::span<double const>, double) {}
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
