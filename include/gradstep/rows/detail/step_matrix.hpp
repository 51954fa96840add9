#pragma once
#include <gradstep/rows/detail/missed.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// A weight of 1 without gradient, during a step: the change so far, which would be lost to rounding
// beside the 1, and the gradient that a coupled decay makes of the weight.
struct unit_response {
    double change = 0, gradient = 0;

    void multiply_by_one_and(double x) { change += std::fma(change, x, x); }
};
template <class Regularizer>
void regularize([[maybe_unused]] Regularizer const& regularizer, [[maybe_unused]] step_info now,
                [[maybe_unused]] bool before_rule, [[maybe_unused]] unit_response& weight) {
    if constexpr (requires { regularizer.first, regularizer.rest; }) { // all_of
        regularize(regularizer.first, now, before_rule, weight);
        regularize(regularizer.rest, now, before_rule, weight);
    } else if constexpr (zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::scales ||
                         zero_gradient_weight_of<Regularizer>() == zero_gradient_weight::scales_at_rest) {
        if (acts_before<Regularizer> == before_rule)
            weight.multiply_by_one_and(std::expm1(regularizer.shrink(now).log_a));
    } else if constexpr (acts_before<Regularizer>) {
        double w = 1 + weight.change;
        if (before_rule) Regularizer::before(regularizer.template prepare<double>(now), w, weight.gradient);
    }
}

// The matrix of a step without gradient: what the rule makes of w = 1 alone and of each slot = 1
// alone, as it is linear in weight, slots and gradient. Averages come last and are not included. If
// a rule is not linear, the weight stays.
template <class Rule, class Regularizer>
auto matrix_without_averages(Rule const& rule, Regularizer const& regularizer, step_info now) {
    constexpr std::size_t slots = is_linear<Rule>() ? first_average_slot<Rule>() : 0, size = 1 + slots;
    auto const coeffs = rule.template prepare<double>(now);
    // Applies the rule to (w, slots, g), of which one is 1 and the others are 0.
    [[maybe_unused]] auto const apply = [&](std::size_t which) {
        double w = which == 0;
        typename Rule::template state<double> s{};
        host_each<slots>([&](auto i) { slot<i, Rule>(s) = which == i + 1; });
        if constexpr (is_linear<Rule>()) Rule::apply(coeffs, w, double(which == size), s);
        std::array<double, size> out = {w};
        host_each<slots>([&](auto i) { out[i + 1] = slot<i, Rule>(s); });
        return out;
    };
    unit_response before, after;
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
// What the averages of a rule make of a weight of 1 and of each of their slots = 1: linear for any
// rule. The weight itself changes only if one of them pulls it.
template <class Rule> auto matrix_of_averages(Rule const& rule, step_info now) {
    constexpr std::size_t first = first_average_slot<Rule>(), size = 1 + slot_count<Rule> - first;
    auto const coeffs = rule.template prepare<double>(now);
    matrix<size> out = matrix<size>::identity();
    for (std::size_t k = 0; k < size; ++k) {
        typename Rule::template state<double> s{};
        host_each<size - 1>([&](auto i) { slot<first + i, Rule>(s) = k == i + 1; });
        double w = k == 0;
        if constexpr (pulls_weight<Rule>) {
            Rule::pull(coeffs, w, s);
            if (k != 0) out.at[0][k] = w;
        }
        after_step_of<Rule>(coeffs, w, s);
        host_each<size - 1>([&](auto i) { out.at[i + 1][k] = slot<first + i, Rule>(s) - double(k == i + 1); });
    }
    // A pull leaves a weight that equals the slots. So the change of a weight of 1 follows from the
    // others, and a small one is not lost beside the 1.
    for (std::size_t k = 1; k < size; ++k) out.at[0][0] -= out.at[0][k];
    out.center();
    return out;
}
// Both: the map of a step on the weight, on the slots from first_linear_slot on, and on the
// averages among them.
template <class Rule, class Regularizer>
matrix<1 + slot_count<Rule> - first_linear_slot<Rule>()> matrix_of_step(Rule const& rule,
                                                                        Regularizer const& regularizer, step_info now) {
    auto const own = matrix_without_averages(rule, regularizer, now);
    if constexpr (!keeps_average<Rule>) {
        return own;
    } else {
        constexpr std::size_t size = 1 + slot_count<Rule> - first_linear_slot<Rule>(),
                              // Number of slots.
            before = first_average_slot<Rule>() - first_linear_slot<Rule>();
        auto const averages = matrix_of_averages(rule, now);
        auto out = matrix<size>::identity();
        for (std::size_t i = 0; i <= before; ++i) {
            out.base[i] = own.base[i];
            for (std::size_t k = 0; k <= before; ++k) out.at[i][k] = own.at[i][k];
        }
        for (std::size_t i = 1; i + before < size; ++i) {
            out.base[before + i] = averages.base[i];
            for (std::size_t k = 0; k <= before; ++k) out.at[before + i][k] = averages.at[i][0] * own.value(0, k);
            for (std::size_t k = 1; k + before < size; ++k) out.at[before + i][before + k] = averages.at[i][k];
        }
        if constexpr (pulls_weight<Rule>) {
            if (pulls_every_step<Rule> || rule.template prepare<double>(now).is_rare()) {
                bool const beside_one = pulls_every_step<Rule> && averages.base[0] == 1 && own.base[0] == 1;
                out.base[0] = beside_one;
                for (std::size_t k = 0; k <= before; ++k) out.at[0][k] = averages.value(0, 0) * own.value(0, k);
                if (beside_one) // (1 + a) * (1 + b) - 1
                    out.at[0][0] = std::fma(averages.at[0][0], own.at[0][0], averages.at[0][0] + own.at[0][0]);
                for (std::size_t k = 1; k + before < size; ++k) out.at[0][before + k] = averages.at[0][k];
                out.center();
            }
        }
        return out;
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
