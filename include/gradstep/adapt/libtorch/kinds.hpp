#pragma once
#include <gradstep/adapt/libtorch.hpp>
#include <gradstep/adapt/libtorch/memory.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/dialects/detail/torch_forms.hpp>
#include <gradstep/json/detail/json.hpp>
#include <gradstep/memory/detail/apart.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/regularizers/l2.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/schedules/external.hpp>

// The updaters of the groups of an optimizer, and how the optimizers differ.
namespace gradstep::detail::libtorch::inline GRADSTEP_ABI {
// Adds the number of the group to the message of an error in its options.
template <class F> decltype(auto) of_group(std::size_t group, F const& f) {
    return detail::rethrow_as<not_compiled_error>(
        [&]() -> decltype(auto) {
            return detail::rethrow_as<value_error>(f, [&](value_error const& cause) {
                if (dynamic_cast<not_compiled_error const*>(&cause) != nullptr) throw;
                throw_error<value_error>(group_name(group) + ": " + cause.what());
            });
        },
        [&](not_compiled_error const& cause) {
            throw_error<not_compiled_error>(group_name(group) + ": " + cause.what());
        });
}

// The updater of a group for parameters of one dtype. It computes in float32 if its rule is not
// compiled for 16-bit parameters.
struct typed_updater {
    any_updater by;
    at::ScalarType type;
    bool needs_loss;

    typed_updater(optimizer_configuration const& from, scalar storage)
        : by(made(from, storage)), type(type_of(by.storage())), needs_loss(refuses_no_loss(by)) {}

    // Parameters whose steps have different numbers need different calls.
    bool has_one_clock() const {
        return !by.facts().clock_state_names.empty() || by.facts().is_model_wise || !by.policies().scheduled.empty();
    }

private:
    static any_updater made(optimizer_configuration const& from, scalar storage) {
        bool const is_half = storage == scalar::float16 || storage == scalar::bfloat16;
        if (!is_half || from.options.element != element_form::plain) return any_updater(from, storage);
        try {
            return any_updater(from, storage);
        } catch (not_compiled_error const&) {
            return any_updater(from, scalar::float32);
        }
    }
    static bool refuses_no_loss(any_updater by) {
        if (!by.facts().is_model_wise) return false;
        try {
            by.next_step({.rate = 0.0});
            return false;
        } catch (value_error const&) {
            return true;
        }
    }
};

// What a group keeps from step to step: the updaters, for the options that they were made from.
template <class Options> struct kept_group {
    Options options;
    optimizer_configuration configuration;
    nonfinite on_nonfinite;
    std::array<std::unique_ptr<typed_updater>, elements.size()> by_element = {};
};
// What an optimizer keeps from step to step.
template <class Options> struct kept_updaters {
    std::vector<kept_group<Options>> groups = {};
    detail::apart_check apart = {};
};

// How the optimizers differ: how options become a configuration, and where the state is.

// The functions that kinds of torch's own options share.
struct kind_of_torch {
    // Options by their names, and a beta as the presets name it.
    using numbers = std::initializer_list<std::pair<std::string_view, double>>;
    // By the table of torch's optimizers.
    static optimizer_configuration made(std::string_view optimizer, numbers options) {
        auto const number = [&](std::string_view name) {
            for (auto const& [option, value] : options)
                if (option == name) return value;
            return 0.0;
        };
        auto const* const form =
            dialects::detail::form_of(optimizer, [&](std::string_view option) { return number(option) != 0; });
        if (form == nullptr) detail::fail<value_error>({"dampening"}, {number("dampening")}, {"0 with nesterov"});
        configuration out{.rule = sgd{}, .schedule = external{}};
        dialects::detail::with_arguments(
            *form, [&](auto const& m) { return number(m.name); },
            [&](auto preset, auto const& arguments) { out.rule = preset.make(arguments); });
        if (double const rate = number("weight_decay"); rate != 0 && form->with == dialects::detail::decay::decoupled)
            out.regularizer = decoupled{rate};
        else if (rate != 0) out.regularizer = l2{rate};
        return {std::move(out)};
    }
    static sparse_gradients sparse(auto const&) { return sparse_gradients::refused; }
    static double rate_of(auto const& options, std::int64_t) { return options.lr(); }
    static clock_state clock_of(auto const&, tensor_path const&) { return {}; }
    static std::optional<std::int64_t> steps_of(auto const& in) { return in.step(); }
    static void set_clock(auto& in, any_updater const&, std::int64_t steps, clock_state const&) { in.step(steps); }
};
// The same for states whose tensors Kind::slots lists.
template <class Kind> struct kind_with_slots : kind_of_torch {
    static std::size_t index_of(char const* name) {
        std::size_t i = 0;
        while (std::string_view(Kind::slots[i].name) != name) ++i;
        return i;
    }
    static char const* name_of(any_updater const& by, std::size_t slot) {
        return Kind::slots[index_of(by.slot_name(slot))].of_torch;
    }
    static Tensor slot_of(auto const& in, any_updater const& by, std::size_t slot) {
        return (in.*Kind::slots[index_of(by.slot_name(slot))].get)();
    }
    static void set_slot(auto& in, any_updater const& by, std::size_t slot, Tensor const& x) {
        (in.*Kind::slots[index_of(by.slot_name(slot))].change)() = x;
    }
    // Calls f(name, tensor) for every tensor of a state, also for those that no step uses now.
    static void visit(auto& in, auto const& f) {
        for (auto const& slot : Kind::slots) f(slot.of_torch, (in.*slot.change)());
    }
};
// A tensor of torch's state: the slot's name in gradstep, and torch's.
template <class State> struct state_tensor {
    char const *name, *of_torch;
    Tensor const& (State::*get)() const noexcept;
    Tensor& (State::*change)() noexcept;
};

// Adam and AdamW.
template <class Options, class State> struct adam_family : kind_with_slots<adam_family<Options, State>> {
    using options_type = Options;
    using state_type = State;
    static constexpr bool is_adam = std::is_same_v<Options, ::torch::optim::AdamOptions>;
    static constexpr char const* options_name = is_adam ? "torch::optim::AdamOptions" : "torch::optim::AdamWOptions";
    static constexpr std::array slots{
        state_tensor<State>{"m", "exp_avg", &State::exp_avg, &State::exp_avg},
        state_tensor<State>{"v", "exp_avg_sq", &State::exp_avg_sq, &State::exp_avg_sq},
        state_tensor<State>{"v_max", "max_exp_avg_sq", &State::max_exp_avg_sq, &State::max_exp_avg_sq}};

    static optimizer_configuration configuration_of(options_type const& of, options_type const&) {
        auto const [beta1, beta2] = of.betas();
        return kind_of_torch::made(is_adam ? "Adam" : "AdamW", {{"beta1", beta1},
                                                                {"beta2", beta2},
                                                                {"eps", of.eps()},
                                                                {"amsgrad", of.amsgrad()},
                                                                {"weight_decay", of.weight_decay()}});
    }
};
using adam_kind = adam_family<::torch::optim::AdamOptions, ::torch::optim::AdamParamState>;
using adamw_kind = adam_family<::torch::optim::AdamWOptions, ::torch::optim::AdamWParamState>;

struct rmsprop_kind : kind_with_slots<rmsprop_kind> {
    using options_type = ::torch::optim::RMSpropOptions;
    using state_type = ::torch::optim::RMSpropParamState;
    static constexpr char const* options_name = "torch::optim::RMSpropOptions";
    static constexpr std::array slots{
        state_tensor<state_type>{"n", "square_avg", &state_type::square_avg, &state_type::square_avg},
        state_tensor<state_type>{"a", "grad_avg", &state_type::grad_avg, &state_type::grad_avg},
        state_tensor<state_type>{"b", "momentum_buffer", &state_type::momentum_buffer, &state_type::momentum_buffer}};

    static optimizer_configuration configuration_of(options_type const& of, options_type const&) {
        return made("RMSprop", {{"alpha", of.alpha()},
                                {"eps", of.eps()},
                                {"momentum", of.momentum()},
                                {"centered", of.centered()},
                                {"weight_decay", of.weight_decay()}});
    }
};

struct adagrad_kind : kind_with_slots<adagrad_kind> {
    using options_type = ::torch::optim::AdagradOptions;
    using state_type = ::torch::optim::AdagradParamState;
    static constexpr char const* options_name = "torch::optim::AdagradOptions";
    static constexpr std::array slots{state_tensor<state_type>{"n", "sum", &state_type::sum, &state_type::sum}};

    static optimizer_configuration configuration_of(options_type const& of, options_type const&) {
        if (!ranges::non_negative.contains(of.lr_decay()))
            detail::fail<value_error>({"lr_decay"}, {of.lr_decay(), " is out of range"}, {ranges::non_negative.text});
        return made("Adagrad", {{"initial_accumulator_value", of.initial_accumulator_value()},
                                {"eps", of.eps()},
                                {"weight_decay", of.weight_decay()}});
    }
    static sparse_gradients sparse(options_type const& of) {
        return of.weight_decay() != 0 ? sparse_gradients::refused_with_decay : sparse_gradients::rows;
    }
    static double rate_of(options_type const& options, std::int64_t number) {
        return options.lr() / (1 + static_cast<double>(number - 1) * options.lr_decay());
    }
};

// torch's state has no count of steps: a step without a buffer is the first one.
struct sgd_kind : kind_of_torch {
    using options_type = ::torch::optim::SGDOptions;
    using state_type = ::torch::optim::SGDParamState;
    static constexpr char const* options_name = "torch::optim::SGDOptions";

    static optimizer_configuration configuration_of(options_type const& of, options_type const&) {
        return made("SGD", {{"momentum", of.momentum()},
                            {"dampening", of.dampening()},
                            {"nesterov", of.nesterov()},
                            {"weight_decay", of.weight_decay()}});
    }
    static sparse_gradients sparse(options_type const& of) {
        if (of.weight_decay() != 0) return sparse_gradients::refused_with_decay;
        return of.momentum() == 0 ? sparse_gradients::rows : sparse_gradients::as_dense;
    }

    static char const* name_of(any_updater const&, std::size_t) { return "momentum_buffer"; }
    static Tensor slot_of(state_type const& in, any_updater const&, std::size_t) { return in.momentum_buffer(); }
    static void set_slot(state_type& in, any_updater const&, std::size_t, Tensor const& x) { in.momentum_buffer(x); }
    static void visit(state_type& in, auto const& f) { f("momentum_buffer", in.momentum_buffer()); }
    static std::optional<std::int64_t> steps_of(state_type const&) { return {}; }
    static void set_clock(state_type&, any_updater const&, std::int64_t, clock_state const&) {}
};

struct any_kind {
    using options_type = torch_optim::OptimizerOptions;
    using state_type = torch_optim::OptimizerParamState;
    static constexpr char const* options_name = "gradstep::torch_optim::OptimizerOptions";

    static optimizer_configuration configuration_of(options_type const& of, options_type const& defaults) {
        detail::json document = detail::parse_json(of.config().empty() ? defaults.config() : of.config());
        auto const refuse = [&](char const* key, char const* expected) {
            if (auto const* const found = document.find(key))
                detail::fail<value_error>({key}, {detail::shown(*found), " is given"}, {expected});
        };
        refuse("schedule", "none: the learning rate is lr, which torch's LRSchedulers change");
        refuse("threads", "none: a step uses torch's threads (at::set_num_threads)");
        document["schedule"]["name"] = detail::json(std::string("external"));
        optimizer_configuration out = detail::read_optimizer(document, detail::json_path());
        if (!detail::limit_of_step(out.options.clip).is_none())
            detail::fail<value_error>({"clip"},
                                      {detail::configuration_of_hyperparameter(out.options.clip).dump(), " is given"},
                                      {"none or clip_value; torch::nn::utils::clip_grad_norm_ clips by a norm"});
        if (std::holds_alternative<dgc_momentum>(out.policies.rule))
            detail::fail<value_error>({"rule"}, {"dgc_momentum compresses gradients, and needs their messages"},
                                      {"another rule"});
        return out;
    }
    static sparse_gradients sparse(options_type const& of) {
        return of.sparse_rows() ? sparse_gradients::rows : sparse_gradients::refused;
    }

    static double rate_of(options_type const& options, std::int64_t) { return options.lr(); }

    static char const* name_of(any_updater const& by, std::size_t slot) { return by.slot_name(slot); }
    static void visit(state_type& in, auto const& f) {
        for (auto& [name, slot] : in.slots()) f(name, slot);
    }
    static Tensor slot_of(state_type const& in, any_updater const& by, std::size_t slot) {
        auto const found = in.slots().find(by.slot_name(slot));
        return found == in.slots().end() ? Tensor() : found->second;
    }
    static void set_slot(state_type& in, any_updater const& by, std::size_t slot, Tensor const& x) {
        in.slots()[by.slot_name(slot)] = x;
    }
    static std::optional<std::int64_t> steps_of(state_type const& in) { return in.step(); }
    static clock_state clock_of(state_type const& in, tensor_path const& here) {
        clock_state out{};
        if (in.clock().size() != out.size())
            detail::fail<size_error>({here.text()}, {"its state clock has ", in.clock().size(), " numbers"},
                                     {out.size()});
        std::copy(in.clock().begin(), in.clock().end(), out.begin());
        return out;
    }
    static void set_clock(state_type& in, any_updater const& by, std::int64_t steps, clock_state const& clock) {
        in.step(steps);
        if (!by.facts().clock_state_names.empty()) in.clock(std::vector<double>(clock.begin(), clock.end()));
    }
};

// The kind of each class of torch.
template <class Base> struct kind_of_class { using type = any_kind; };
template <> struct kind_of_class<::torch::optim::Adam> { using type = adam_kind; };
template <> struct kind_of_class<::torch::optim::AdamW> { using type = adamw_kind; };
template <> struct kind_of_class<::torch::optim::Adagrad> { using type = adagrad_kind; };
template <> struct kind_of_class<::torch::optim::RMSprop> { using type = rmsprop_kind; };
template <> struct kind_of_class<::torch::optim::SGD> { using type = sgd_kind; };
template <class Base> using kind_of = typename kind_of_class<Base>::type;
} // namespace gradstep::detail::libtorch::inline GRADSTEP_ABI
