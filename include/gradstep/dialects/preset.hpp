#pragma once
/// The presets of a framework as data: functions with their names, for readers of configurations.
#include <gradstep/base/compiler.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep::dialects {
/// The arguments of a function without arguments.
struct no_arguments {
    static constexpr hyperparameter_list<> hyperparameters{};
};
} // namespace gradstep::dialects

namespace gradstep::dialects::detail::inline GRADSTEP_ISA {
template <auto Function> struct signature;
template <class Rule, Rule (*Function)()> struct signature<Function> {
    using rule_type = Rule;
    using arguments_type = no_arguments;
};
template <class Rule, class Arguments, Rule (*Function)(Arguments)> struct signature<Function> {
    using rule_type = Rule;
    using arguments_type = Arguments;
};
} // namespace gradstep::dialects::detail::inline GRADSTEP_ISA

namespace gradstep::dialects::inline GRADSTEP_ISA {
/// A preset as a type: its name, its arguments and its rule. The function is a template argument
/// and never a pointer: a pointer would need a compiled copy, which other instruction sets would
/// share.
template <auto Function> struct preset {
    /// The rule that it returns.
    using rule_type = typename detail::signature<Function>::rule_type;
    /// Its arguments, with the framework's names and defaults. Their `hyperparameters` contain the
    /// ranges that both the framework and the rule allow. `no_arguments` if it has none.
    using arguments_type = typename detail::signature<Function>::arguments_type;

    /// Its name: "rmsprop_momentum" for gradstep::dialects::torch::rmsprop_momentum.
    static constexpr std::string_view name() {
        std::string_view name = __PRETTY_FUNCTION__;
        name.remove_prefix(name.find("Function = ") + 11);
        name = name.substr(0, name.find_first_of(";])("));
        if (auto const scope = name.rfind(':'); scope != name.npos) name.remove_prefix(scope + 1);
        return name;
    }
    /// The rule for these arguments. Like the function, it does not check them: `check_policy`
    /// checks arguments as well as rules.
    GRADSTEP_INLINE static constexpr rule_type make([[maybe_unused]] arguments_type const& with = {}) {
        if constexpr (requires { Function(with); }) return Function(with);
        else return Function();
    }
};
} // namespace gradstep::dialects::inline GRADSTEP_ISA

namespace gradstep::dialects {
/// All presets of a framework. Each framework has its list as `presets`; `torch::presets.dialect`
/// is "torch".
template <auto... Functions> struct preset_list {
    char const* dialect;

    /// Calls f(preset) for each, from the first to the last.
    template <class F> GRADSTEP_INLINE constexpr void for_each(F const& f) const { (f(preset<Functions>{}), ...); }
};
} // namespace gradstep::dialects
