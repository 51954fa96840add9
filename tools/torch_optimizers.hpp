#pragma once
// What import-torch and export-torch have beside the table of torch's optimizers, `torch_forms`.
// The class Optimizer of gradstep.torch has no line in it: its parameter groups carry a
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
#include <gradstep/dialects/detail/torch_forms.hpp>
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/number/element.hpp>
#include <gradstep/policy/detail/slots.hpp>
#include <gradstep/policy/factored.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/step/state_visitor.hpp>

namespace gradstep::tools {

namespace torch = dialects::torch;
using dialects::detail::decay, dialects::detail::slot_name, dialects::detail::torch_form, dialects::detail::torch_forms,
    dialects::detail::is_torch_optimizer, dialects::detail::with_preset;

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
