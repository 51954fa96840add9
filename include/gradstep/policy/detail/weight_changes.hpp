#pragma once
#include <variant>

#include <gradstep/policy/describe.hpp>
#include <gradstep/policy/zero_gradient.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether a rule computes the weight from its slots, so that a regularizer may change only its
// gradient.
template <class Rule> constexpr bool takes_gradients_only() {
    if constexpr (requires { Rule::takes_gradients_only; }) return Rule::takes_gradients_only;
    else return false;
}
// The name of the first part of a regularizer that changes the weight itself; empty if none does.
template <class Regularizer> std::string_view weight_change_of([[maybe_unused]] Regularizer const& of) {
    if constexpr (requires { of.parts(); }) { // any_regularizer
        for (auto const& part : of.parts()) {
            auto const found = std::visit([](auto const& one) { return weight_change_of(one); }, part);
            if (!found.empty()) return found;
        }
        return {};
    } else if constexpr (requires { of.first, of.rest; }) { // all_of
        auto const found = weight_change_of(of.first);
        return found.empty() ? weight_change_of(of.rest) : found;
    } else {
        constexpr auto weight = zero_gradient_weight_of<Regularizer>();
        constexpr bool is_empty = requires { Regularizer::at_zero_gradient_after(weight); }; // all_of<>
        constexpr bool moves = weight == zero_gradient_weight::scales || weight == zero_gradient_weight::shrinks;
        return !is_empty && (acts_after<Regularizer> || moves) ? type_name<Regularizer>() : std::string_view();
    }
}
template <class Rule, class Regularizer> void require_gradients_only([[maybe_unused]] Regularizer const& regularizer) {
    if constexpr (takes_gradients_only<Rule>()) {
        auto const name = weight_change_of(regularizer);
        if (!name.empty())
            fail<value_error>({"regularizer"},
                              {name, " changes the weight itself, and ", type_name<Rule>(),
                               " computes the weight from other numbers"},
                              {"a regularizer of the gradient, such as l2, or the decay of the rule"});
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
