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
#include <gradstep/dialects/torch.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/number/element.hpp>
#include <gradstep/policy/detail/slots.hpp>
#include <gradstep/policy/factored.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/step/state_visitor.hpp>

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
/// The class of gradstep.torch whose groups have a configuration. Its state has the numbers that
/// a rule keeps in the clock under the name `clock_key`: as many of F64 as a clock has. Those after
/// the numbers of the rule are 0.
inline constexpr std::string_view any_optimizer = "Optimizer", clock_key = "clock";

/// The classes, each once.
inline std::vector<std::string_view> known_optimizers() {
    std::vector<std::string_view> out;
    for (torch_form const& form : torch_forms)
        if (out.empty() || out.back() != form.optimizer) out.push_back(form.optimizer);
    out.push_back(any_optimizer);
    return out;
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

/// The numbers that a slot has.
enum class slot_form {
    elements, ///< one for each element
    single,   ///< one for the whole tensor
    rows,     ///< of a factored rule: one for each row of a matrix
    columns,  ///< one for each column of a matrix
    whole,    ///< one for each element of a tensor that is no matrix
};
constexpr slot_form form_of(factor_length length) {
    if (length == factor_length::whole) return slot_form::whole;
    return length == factor_length::rows ? slot_form::rows : slot_form::columns;
}
/// The shape of a slot in torch's state of a tensor with these extents; empty if such a tensor
/// lacks the slot. The dimensions of a matrix after the first one are joined.
inline std::optional<std::vector<std::uint64_t>> shape_in_torch(slot_form form,
                                                                std::vector<std::uint64_t> const& extents) {
    using shape = std::vector<std::uint64_t>;
    bool const is_matrix = extents.size() > 1;
    gradstep::shape const matrix = gradstep::shape::of(extents);
    switch (form) {
    case slot_form::elements:
        return extents;
    case slot_form::single:
        return shape{1};
    case slot_form::rows:
        if (is_matrix) return shape{matrix.rows, 1};
        return {};
    case slot_form::columns:
        if (is_matrix) return shape{1, matrix.cols};
        return {};
    case slot_form::whole:
        break;
    }
    if (is_matrix) return {};
    return extents;
}

/// A slot as a file has it.
struct torch_slot {
    std::string here, in_torch;
    slot_form form = slot_form::elements;
    bool begins_as_weights = false; // as an average; else it begins with `initial` in all its elements
    double initial = 0;
};
/// The slots of a rule and of the averages around it, by the names that name_in_torch(name) gives
/// them. `rule` becomes its name.
template <class Rule, class Name>
std::vector<torch_slot> slots_of(Rule const& rule, std::string& name, Name const& name_in_torch) {
    std::vector<torch_slot> out;
    name.clear();
    detail::append_policy_name<Rule>(name);
    auto const add = [&](char const* here, double initial, slot_form form, bool begins_as_weights = false) {
        out.push_back({here, std::string(name_in_torch(here)), form, begins_as_weights, initial});
    };
    auto of_0 = detail::initial_state(rule, 0.0), of_1 = detail::initial_state(rule, 1.0);
    detail::host_each<slot_count<Rule>>([&](auto i) {
        auto const at_0 = static_cast<double>(detail::slot<i, Rule>(of_0));
        auto const at_1 = static_cast<double>(detail::slot<i, Rule>(of_1));
        add(Rule::state_names[i], at_0, slot_form::elements, at_0 == 0 && at_1 == 1); // as z of schedule_free_sgd
    });
    if constexpr (constexpr std::size_t slots = row_slot_count<Rule>; slots != 0) {
        auto row = detail::initial_row_state<double>(rule);
        detail::host_each<slots>(
            [&](auto i) { add(Rule::row_state_names[i], detail::nth<i, slots>(row), slot_form::single); });
    }
    for (factor_slot const& slot : detail::factor_slots_of<Rule>()) add(slot.name, 0, form_of(slot.length));
    return out;
}
template <class Average, class Name>
void add_average(Average const&, std::vector<torch_slot>& slots, std::string& name, Name const& name_in_torch) {
    name = detail::joined({"averaged{", name, ", ", detail::type_name<Average>(), "}"});
    for (char const* const slot : Average::state_names) {
        bool const is_sum = std::is_same_v<Average, window>; // the others begin as the weights
        slots.push_back({slot, std::string(name_in_torch(slot)), slot_form::elements, !is_sum, 0});
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
