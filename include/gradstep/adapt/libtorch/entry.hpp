#pragma once
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <gradstep/adapt/libtorch/kinds.hpp>
#include <gradstep/adapt/libtorch/memory.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/number/scalar.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/compiled_updater.hpp>

// What a step knows of one parameter, and the checks of its tensors.
namespace gradstep::detail::libtorch::inline GRADSTEP_ABI {
inline any_span span_of(Tensor const& x, scalar type) {
    return {type, x.data_ptr(), static_cast<std::size_t>(x.numel())};
}

// The step of one parameter.
template <class State> struct entry {
    tensor_path here = {0, 0};
    Tensor own = {};                   // the parameter
    Tensor weight = {}, gradient = {}; // `own` and its gradient, or copies
    std::array<Tensor, runtime::most_slots> slots = {};
    std::vector<Tensor> kept = {};                    // the whole slots, if `slots` are rows of them
    std::vector<at::indexing::TensorIndex> rows = {}; // of a sparse gradient
    gradstep::shape shape = {};
    State* state = nullptr; // null: `made`
    std::unique_ptr<State> made = {};
    std::int64_t number = 1; // of this parameter's step
    clock_state clock = {};

    bool is_copy() const { return !weight.is_same(own); }
    // The weights and these slots, for a call without a gradient.
    any_tensor tensor(any_updater const& by, std::vector<any_span> const& of_slots) const {
        return {span_of(weight, by.storage()), {}, of_slots, {}, 1, 1, number, shape};
    }
};
template <class State> std::vector<any_span> spans_of(entry<State> const& x, any_updater const& by) {
    std::vector<any_span> out;
    for (std::size_t i = 0; i < by.slots(); ++i) out.push_back(span_of(x.slots[i], by.state_type()));
    return out;
}

// Parameters that one call updates.
struct batch {
    typed_updater* by;
    std::size_t group;
    double rate;
    std::int64_t number; // of the step of the first parameter
    clock_state clock;
    std::vector<std::size_t> members = {};
};

[[noreturn]] inline void refuse_model(batch const& of) {
    detail::fail<value_error>({group_name(of.group)},
                              {"a model-wise rule updates all parameters together, and they differ in group, dtype, "
                               "step or clock"},
                              {"one group of parameters of one dtype, with the same step"});
}

// The loss of a step, from a closure.
inline double number_of(Tensor const& loss) {
    if (!loss.defined() || loss.numel() != 1)
        detail::fail<value_error>({"step"}, {"the rule computes its step size from the loss, and none is given"},
                                  {"a closure that returns it"});
    return loss.item<double>();
}

// Throws unless a step can write a parameter.
inline void require_writable(Tensor const& own, tensor_path const& here) {
    require_apart(own, here);
    if (own.is_inference() && !c10::InferenceMode::is_enabled())
        detail::fail<buffer_error>({here.text()}, {"was made in inference mode"},
                                   {"a tensor made outside, or a step inside"});
}

// Gives a step the values of a parameter, or a copy if the updater has another dtype or layout.
template <class State> void take_weight(entry<State>& x, typed_updater const& updater) {
    Tensor const& own = x.own;
    bool const uses_shape = updater.by.facts().uses_shape;
    bool const is_direct = own.scalar_type() == updater.type && !own.is_neg() &&
                           (uses_shape ? own.is_contiguous() : own.is_non_overlapping_and_dense());
    if (is_direct) x.weight = own;
    else
        x.weight =
            (uses_shape ? at::empty(own.sizes(), own.options().dtype(updater.type)) : empty_like(own, updater.type))
                .copy_(own);
    if (uses_shape && own.dim() > 1 && !is_empty(own))
        x.shape = {static_cast<std::size_t>(own.size(0)), static_cast<std::size_t>(own.numel() / own.size(0))};
    if (updater.by.facts().needs_matrix && !x.shape.is_known())
        detail::fail<size_error>({x.here.text()}, {"has the shape ", text_of(own.sizes())},
                                 {"a matrix; give vectors to a group with another config"});
}

// The names of all slots of an updater.
template <class Kind> std::string names_of(any_updater const& by) {
    std::string out;
    for (std::size_t i = 0; i < by.slots(); ++i) out += (i == 0 ? "" : ", ") + std::string(Kind::name_of(by, i));
    return out;
}

// Whether a sparse gradient updates its rows only. Throws if the rule looks at whole tensors.
template <class Kind>
sparse_gradients sparse_of(any_updater const& by, typename Kind::options_type const& options, tensor_path const& here) {
    sparse_gradients const how = Kind::sparse(options);
    if (how == sparse_gradients::rows && (by.facts().is_whole() || by.facts().is_model_wise))
        detail::fail<value_error>({here.text()}, {"sparse_rows is true, and the rule looks at whole tensors"},
                                  {"an elementwise rule, or sparse_rows false"});
    return how;
}

// Throws unless a gradient fits its parameter.
inline void require_gradient(Tensor const& gradient, Tensor const& own, sparse_gradients how, tensor_path const& here) {
    if (gradient.layout() != at::kSparse) require_memory(gradient, here);
    else if (how == sparse_gradients::refused)
        detail::fail<buffer_error>({here.text()}, {here.subject(), " is sparse"}, {"a dense one"});
    else if (how == sparse_gradients::refused_with_decay)
        detail::fail<buffer_error>({here.text()}, {here.subject(), " is sparse"}, {"a dense one, or no weight_decay"});
    else if (gradient.device().type() != at::kCPU)
        detail::fail<buffer_error>({here.text()}, {here.subject(), " is on ", gradient.device().str()}, {"the CPU"});
    if (gradient.scalar_type() != own.scalar_type())
        detail::fail<value_error>({here.text()}, {here.subject(), " is of ", text_of(gradient.scalar_type())},
                                  {text_of(own.scalar_type())});
    if (gradient.sizes() != own.sizes())
        detail::fail<size_error>({here.text()}, {here.subject(), " has the shape ", text_of(gradient.sizes())},
                                 {text_of(own.sizes())});
}

// Whether a parameter takes the step, by `on_nonfinite` of the configuration.
inline bool is_taken(Tensor const& gradient, nonfinite mode, tensor_path const& here) {
    if (mode == nonfinite::propagate) return true;
    Tensor const values = gradient.is_sparse() ? gradient.coalesce().values() : gradient;
    bool const is_finite = at::isfinite(values).all().template item<bool>();
    if (!is_finite && mode == nonfinite::raise)
        detail::fail<nonfinite_error>({here.text()},
                                      {"the gradient is not finite, and on_nonfinite is \"raise\": no step is taken"});
    return is_finite;
}

// Throws unless a tensor of the state fits its parameter.
inline void require_slot(Tensor const& old, Tensor const& like, tensor_path const& here) {
    require_memory(old, here);
    if (old.sizes() != like.sizes())
        detail::fail<size_error>({here.text()}, {here.subject(), " has the shape ", text_of(old.sizes())},
                                 {text_of(like.sizes())});
    if (!old.is_floating_point())
        detail::fail<value_error>({here.text()}, {here.subject(), " is of ", text_of(old.scalar_type())},
                                  {elements_text});
}

// Copies of the rows of a sparse gradient, for the weights and every slot.
template <class State> void take_rows(entry<State>& x, any_updater const& by, Tensor const& gradient) {
    Tensor const whole = gradient.coalesce();
    for (Tensor const& of_dimension : whole.indices().unbind()) x.rows.emplace_back(of_dimension);
    x.weight = x.weight.index(x.rows).contiguous();
    x.gradient = empty_like(x.weight, x.weight.scalar_type()).copy_(whole.values());
    for (std::size_t i = 0; i < by.slots(); ++i) {
        x.kept.push_back(x.slots[i]);
        x.slots[i] = x.kept[i].index(x.rows).contiguous();
    }
}
} // namespace gradstep::detail::libtorch::inline GRADSTEP_ABI
