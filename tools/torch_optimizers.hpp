#pragma once
// What torch's optimizers are in gradstep: the table that import-torch and export-torch go by. To
// add an optimizer of torch, add its line to `torch_forms`; both commands and their messages follow
// it. The class Optimizer of gradstep.torch has no line: its parameter groups carry a
// configuration, and its state has the names that the slots have here.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <gradstep/config.hpp>
#include <gradstep/core/element.hpp>
#include <gradstep/core/kernel.hpp>
#include <gradstep/core/slots.hpp>
#include <gradstep/core/state_visitor.hpp>
#include <gradstep/dialects/torch.hpp>

namespace gradstep::tools {

namespace torch = dialects::torch;

/// A slot of a rule, and its name in torch's state.
struct slot_name {
    std::string_view here, in_torch;
};
/// What an optimizer of torch does with `weight_decay`.
enum class decay {
    none,      ///< it has no such option
    l2,        ///< adds it to the gradient
    by_option, ///< the same, or with `decoupled_weight_decay` decays the weight
    decoupled, ///< decays the weight
};
/// An optimizer of torch with the options that decide which state it keeps.
struct torch_form {
    std::string_view optimizer; // the class
    std::string_view preset;    // of dialects::torch
    std::array<std::string_view, 3>
        when; // options that are set, not 0 and not false; with '-' before them: that are not
    std::array<slot_name, 3> slots = {};
    decay with = decay::l2;
    std::array<std::string_view, 3> options = {}; // more that it has, besides the arguments of the preset
    std::array<std::string_view, 2> derived = {}; // of its state: what the rule computes from the number of the step

    // Whether it takes sparse gradients alone, so that no parameter of dense ones can be its own.
    constexpr bool is_sparse() const { return with == decay::none; }
    constexpr bool counts_steps() const { return optimizer != "SGD"; }
    constexpr bool has_option(std::string_view name) const { return std::ranges::find(options, name) != options.end(); }
};

inline constexpr slot_name first_moment{"m", "exp_avg"}, second_moment{"v", "exp_avg_sq"},
    largest_moment{"v_max", "max_exp_avg_sq"}, squares{"n", "square_avg"}, momentum_buffer{"m", "momentum_buffer"},
    means{"a", "grad_avg"}, steps_buffer{"b", "momentum_buffer"};

inline constexpr std::array torch_forms{
    torch_form{"SGD", "sgd", {"-momentum"}},
    torch_form{"SGD", "sgd_momentum", {"momentum", "-nesterov"}, {momentum_buffer}},
    torch_form{"SGD", "sgd_nesterov", {"momentum", "nesterov", "-dampening"}, {momentum_buffer}},
    torch_form{"RMSprop", "rmsprop", {"-momentum", "-centered"}, {squares}},
    torch_form{"RMSprop", "rmsprop_centered", {"-momentum", "centered"}, {squares, means}},
    torch_form{"RMSprop", "rmsprop_momentum", {"momentum", "-centered"}, {squares, steps_buffer}},
    torch_form{"RMSprop", "rmsprop_centered_momentum", {"momentum", "centered"}, {squares, means, steps_buffer}},
    torch_form{"Adagrad", "adagrad", {}, {{{"n", "sum"}}}, decay::l2, {"lr_decay"}},
    torch_form{"Adadelta", "adadelta", {}, {squares, {"u", "acc_delta"}}},
    torch_form{"Adam", "adam", {"-amsgrad"}, {first_moment, second_moment}, decay::by_option},
    torch_form{"Adam", "adam_amsgrad", {"amsgrad"}, {first_moment, second_moment, largest_moment}, decay::by_option},
    torch_form{"AdamW", "adamw", {"-amsgrad"}, {first_moment, second_moment}, decay::decoupled},
    torch_form{"AdamW", "adamw_amsgrad", {"amsgrad"}, {first_moment, second_moment, largest_moment}, decay::decoupled},
    torch_form{"Adamax", "adamax", {}, {first_moment, {"u", "exp_inf"}}},
    torch_form{"NAdam", "nadam", {}, {first_moment, second_moment}, decay::by_option, {}, {"mu_product"}},
    torch_form{"RAdam", "radam", {}, {first_moment, second_moment}, decay::by_option},
    torch_form{"ASGD", "sgd", {}, {{{"average", "ax"}}}, decay::l2, {"lambd", "alpha", "t0"}, {"eta", "mu"}},
    torch_form{"SparseAdam", "sparse_adam", {}, {first_moment, second_moment}, decay::none},
};
/// The class of gradstep.torch whose groups have a configuration.
inline constexpr std::string_view any_optimizer = "Optimizer";

/// "SGD, RMSprop, ...", each name once.
inline std::string known_optimizers() {
    std::string out;
    for (std::size_t i = 0; i < torch_forms.size(); ++i)
        if (i == 0 || torch_forms[i].optimizer != torch_forms[i - 1].optimizer)
            out.append(torch_forms[i].optimizer).append(", ");
    return out.append(any_optimizer);
}
inline bool is_torch_optimizer(std::string_view name) {
    return std::ranges::find(torch_forms, name, &torch_form::optimizer) != torch_forms.end();
}

/// Calls f(preset) for the preset of a form.
template <class F> void with_preset(torch_form const& form, F const& f) {
    torch::presets.for_each([&](auto preset) {
        if (preset.name() == form.preset) f(preset);
    });
}

/// A slot as a file has it.
struct torch_slot {
    std::string here, in_torch;
    bool is_single = false;         // one number for a whole tensor
    bool begins_as_weights = false; // an average; else it begins with `initial` in all its elements
    double initial = 0;
};
/// The slots of a rule and of the averages around it, by the names that name_in_torch(name) gives
/// them. `rule` becomes its name.
template <class Rule, class Name>
std::vector<torch_slot> slots_of(Rule const& rule, std::string& name, Name const& name_in_torch) {
    std::vector<torch_slot> out;
    name.clear();
    detail::append_policy_name<Rule>(name);
    auto const add = [&](char const* here, double initial, bool is_single) {
        out.push_back({here, std::string(name_in_torch(here)), is_single, false, initial});
    };
    auto first = detail::initial_state(rule, 0.0);
    detail::host_each<slot_count<Rule>>(
        [&](auto i) { add(Rule::state_names[i], static_cast<double>(detail::slot<i, Rule>(first)), false); });
    if constexpr (constexpr std::size_t slots = row_slot_count<Rule>; slots != 0) {
        auto row = detail::initial_row_state<double>(rule);
        detail::host_each<slots>([&](auto i) { add(Rule::row_state_names[i], detail::nth<i, slots>(row), true); });
    }
    return out;
}
template <class Average, class Name>
void add_average(Average const&, std::vector<torch_slot>& slots, std::string& name, Name const& name_in_torch) {
    name = detail::joined({"averaged{", name, ", ", detail::type_name<Average>(), "}"});
    for (char const* const slot : Average::state_names) {
        bool const is_sum = std::is_same_v<Average, window>; // the others begin as the weights
        slots.push_back({slot, std::string(name_in_torch(slot)), false, !is_sum, 0});
    }
}

// ---- What is in memory ----

/// How an element is stored.
struct layout {
    std::string_view element, storage, state;
    bool has_master;
};
template <class Element> constexpr layout layout_of() {
    using traits = element_traits<Element>;
    return {traits::name, detail::dtype_of<typename traits::storage>(), detail::dtype_of<typename traits::state>(),
            traits::has_master};
}
// Those that parameters have where no other is asked for come first.
inline constexpr std::array layouts{
    layout_of<float>(),
    layout_of<double>(),
    layout_of<bfloat16>(),
    layout_of<float16>(),
    layout_of<mixed<bfloat16>>(),
    layout_of<mixed<float16>>(),
    layout_of<stochastic<bfloat16>>(),
    layout_of<stochastic<float16>>(),
};

} // namespace gradstep::tools
