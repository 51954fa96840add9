#pragma once
// What torch's optimizers are in gradstep: the table of import-torch, export-torch and
// gradstep::torch_optim. To add an optimizer of torch, add its line to `torch_forms`.
#include <gradstep/dialects/torch.hpp>

namespace gradstep::dialects::detail::inline GRADSTEP_ISA {
// A slot of a rule, and its name in torch's state.
struct slot_name {
    std::string_view here, in_torch;
};
// What an optimizer of torch does with `weight_decay`.
enum class decay {
    none,      // it has no such option
    l2,        // adds it to the gradient
    by_option, // the same, or with `decoupled_weight_decay` decays the weight
    decoupled, // decays the weight
};
// An optimizer of torch with the options that decide which state it keeps.
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

constexpr bool is_torch_optimizer(std::string_view name) {
    return std::ranges::find(torch_forms, name, &torch_form::optimizer) != torch_forms.end();
}
// Calls f(preset) for the preset of a form.
template <class F> void with_preset(torch_form const& form, F const& f) {
    torch::presets.for_each([&](auto preset) {
        if (preset.name() == form.preset) f(preset);
    });
}
// The form of options, of which is_set(name) says whether they are set; null for dampening with
// nesterov, which is none.
template <class IsSet> constexpr torch_form const* form_of(std::string_view optimizer, IsSet const& is_set) {
    auto const fits = [&](std::string_view option) {
        bool const is_left_out = option.starts_with('-');
        return option.empty() || is_set(option.substr(is_left_out ? 1 : 0)) != is_left_out;
    };
    for (torch_form const& form : torch_forms)
        if (form.optimizer == optimizer && std::ranges::all_of(form.when, fits)) return &form;
    return nullptr;
}
// Calls f(preset, its arguments) for the preset of a form, where number(argument) is the value of
// an argument.
template <class Number, class F> void with_arguments(torch_form const& form, Number const& number, F const& f) {
    with_preset(form, [&]<class Preset>(Preset preset) {
        typename Preset::arguments_type arguments;
        Preset::arguments_type::hyperparameters.for_each([&](auto const& m) { arguments.*m.at = number(m); });
        f(preset, arguments);
    });
}
} // namespace gradstep::dialects::detail::inline GRADSTEP_ISA
