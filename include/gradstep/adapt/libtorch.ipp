#pragma once
// The steps of gradstep::torch_optim. gradstep::libtorch compiles this file once; a program without
// that target includes it in one of its own files, and links gradstep::runtime.
//
// A step has three parts. `collect` finds and checks the memory of every parameter that has a
// gradient, and writes nothing. `prepare` prepares the steps of the updaters, which throws if a
// number is out of range. `run` puts the new state into the optimizer and updates the memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <c10/core/InferenceMode.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <gradstep/adapt/libtorch.hpp>
#include <gradstep/core/apart.hpp>
#include <gradstep/core/clock.hpp>
#include <gradstep/core/error.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/parameter_options.hpp>
#include <gradstep/core/shape.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/dialects/torch.hpp>
#include <gradstep/json/json.hpp>
#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/regularizers/l2.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/runtime/optimizer_configuration.hpp>
#include <gradstep/schedules/external.hpp>

namespace gradstep::torch_optim {
namespace {

using at::Tensor;

// torch's threads. at::parallel_for in a program's own file needs the OpenMP runtime that torch is
// linked to, and is serial without -fopenmp; TensorIterator runs it in torch's library.
struct torch_threads {
    std::size_t concurrency() const {
        return at::in_parallel_region() ? 1 : static_cast<std::size_t>(at::get_num_threads());
    }
    void run(std::size_t parts, task work) const {
        Tensor numbers = at::empty({static_cast<std::int64_t>(parts)}, at::kByte);
        auto const* const first = static_cast<char const*>(numbers.data_ptr());
        at::TensorIterator each = at::TensorIterator::nullary_op(numbers);
        each.for_each(
            [&](char** data, std::int64_t const* strides, std::int64_t columns, std::int64_t rows) {
                for (std::int64_t row = 0; row < rows; ++row)
                    for (std::int64_t column = 0; column < columns; ++column)
                        work(static_cast<std::size_t>(data[0] - first + column * strides[0] + row * strides[1]));
            },
            1);
    }
};

enum class sparse_gradients { refused, refused_with_decay, rows, as_dense };

// A dtype that updaters have.
struct element {
    at::ScalarType type;
    scalar of;
};
constexpr std::array elements{element{at::kFloat, scalar::float32}, element{at::kDouble, scalar::float64},
                              element{at::kHalf, scalar::float16}, element{at::kBFloat16, scalar::bfloat16}};
constexpr char const* elements_text = "Float, Double, Half or BFloat16";

at::ScalarType type_of(scalar of) {
    return std::find_if(elements.begin(), elements.end(), [&](element const& x) { return x.of == of; })->type;
}
std::size_t index_of_element(at::ScalarType type) {
    auto const found = std::find_if(elements.begin(), elements.end(), [&](element const& x) { return x.type == type; });
    return static_cast<std::size_t>(found - elements.begin());
}

std::string group_name(std::size_t group) { return "group " + detail::text(group); }
// Where an error is: a parameter, and one of its tensors. The text is made when it is needed, since
// every step has these places.
struct place {
    std::size_t group, position;
    char const* what = "";
    char const* slot = "";
    std::string text() const { return "parameter " + detail::text(position) + " of " + group_name(group); }
    std::string subject() const { return *slot == 0 ? what : std::string(what) + " " + slot; }
};
std::string text_of(at::IntArrayRef sizes) {
    std::string out = "(";
    for (std::size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? "" : ", ") + detail::text(sizes[i]);
    return out + ")";
}
std::string text_of(at::ScalarType type) { return c10::toString(type); }

// Adds the number of the group to the message of an error in its options.
template <class F> decltype(auto) of_group(std::size_t group, F const& f) {
    return detail::rethrow_as<not_compiled_error>(
        [&]() -> decltype(auto) {
            return detail::rethrow_as<value_error>(f, [&](value_error const& cause) {
                if (dynamic_cast<not_compiled_error const*>(&cause) != nullptr) throw;
                throw value_error(group_name(group) + ": " + cause.what());
            });
        },
        [&](not_compiled_error const& cause) { throw not_compiled_error(group_name(group) + ": " + cause.what()); });
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

struct adamw_kind {
    using options_type = ::torch::optim::AdamWOptions;
    using state_type = ::torch::optim::AdamWParamState;
    static constexpr char const* options_name = "torch::optim::AdamWOptions";

    static optimizer_configuration configuration_of(options_type const& of, options_type const&) {
        auto const [beta1, beta2] = of.betas();
        dialects::torch::adam_arguments const arguments{.beta1 = beta1, .beta2 = beta2, .eps = of.eps()};
        configuration out{.rule = dialects::torch::adamw(arguments), .schedule = external{}};
        if (of.amsgrad()) out.rule = dialects::torch::adamw_amsgrad(arguments);
        if (of.weight_decay() != 0) out.regularizer = decoupled{of.weight_decay()};
        return {std::move(out)};
    }
    static sparse_gradients sparse(options_type const&) { return sparse_gradients::refused; }

    static char const* name_of(any_updater const&, std::size_t slot) {
        return std::array{"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}[slot];
    }
    static Tensor slot_of(state_type const& in, any_updater const&, std::size_t slot) {
        return slot == 0 ? in.exp_avg() : slot == 1 ? in.exp_avg_sq() : in.max_exp_avg_sq();
    }
    static void set_slot(state_type& in, any_updater const&, std::size_t slot, Tensor const& x) {
        if (slot == 0) in.exp_avg(x);
        else if (slot == 1) in.exp_avg_sq(x);
        else in.max_exp_avg_sq(x);
    }
    static std::optional<std::int64_t> steps_of(state_type const& in) { return in.step(); }
    static clock_state clock_of(state_type const&, place const&) { return {}; }
    static void set_clock(state_type& in, any_updater const&, std::int64_t steps, clock_state const&) {
        in.step(steps);
    }
};

// torch's state has no count of steps: a step without a buffer is the first one.
struct sgd_kind {
    using options_type = ::torch::optim::SGDOptions;
    using state_type = ::torch::optim::SGDParamState;
    static constexpr char const* options_name = "torch::optim::SGDOptions";

    static optimizer_configuration configuration_of(options_type const& of, options_type const&) {
        configuration out{.rule = dialects::torch::sgd(), .schedule = external{}};
        if (of.momentum() != 0 && of.nesterov()) {
            if (of.dampening() != 0) detail::fail<value_error>({"dampening"}, {of.dampening()}, {"0 with nesterov"});
            out.rule = dialects::torch::sgd_nesterov({.momentum = of.momentum()});
        } else if (of.momentum() != 0) {
            out.rule = dialects::torch::sgd_momentum({.momentum = of.momentum(), .dampening = of.dampening()});
        }
        if (of.weight_decay() != 0) out.regularizer = l2{of.weight_decay()};
        return {std::move(out)};
    }
    static sparse_gradients sparse(options_type const& of) {
        if (of.weight_decay() != 0) return sparse_gradients::refused_with_decay;
        return of.momentum() == 0 ? sparse_gradients::rows : sparse_gradients::as_dense;
    }

    static char const* name_of(any_updater const&, std::size_t) { return "momentum_buffer"; }
    static Tensor slot_of(state_type const& in, any_updater const&, std::size_t) { return in.momentum_buffer(); }
    static void set_slot(state_type& in, any_updater const&, std::size_t, Tensor const& x) { in.momentum_buffer(x); }
    static std::optional<std::int64_t> steps_of(state_type const&) { return {}; }
    static clock_state clock_of(state_type const&, place const&) { return {}; }
    static void set_clock(state_type&, any_updater const&, std::int64_t, clock_state const&) {}
};

struct any_kind {
    using options_type = OptimizerOptions;
    using state_type = OptimizerParamState;
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
        if (std::holds_alternative<dgc_momentum>(out.policies.rule))
            detail::fail<value_error>({"rule"}, {"dgc_momentum compresses gradients, and needs their messages"},
                                      {"another rule"});
        return out;
    }
    static sparse_gradients sparse(options_type const& of) {
        return of.sparse_rows() ? sparse_gradients::rows : sparse_gradients::refused;
    }

    static char const* name_of(any_updater const& by, std::size_t slot) { return by.slot_name(slot); }
    static Tensor slot_of(state_type const& in, any_updater const& by, std::size_t slot) {
        auto const found = in.slots().find(by.slot_name(slot));
        return found == in.slots().end() ? Tensor() : found->second;
    }
    static void set_slot(state_type& in, any_updater const& by, std::size_t slot, Tensor const& x) {
        in.slots()[by.slot_name(slot)] = x;
    }
    static std::optional<std::int64_t> steps_of(state_type const& in) { return in.step(); }
    static clock_state clock_of(state_type const& in, place const& here) {
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

// Memory.

// Whether an address of `x` serves for memory like that of `like`, which is dense.
bool fits(Tensor const& x, Tensor const& like, at::ScalarType type) {
    return x.scalar_type() == type && x.layout() == at::kStrided && x.is_cpu() && !x.is_neg() &&
           x.sizes() == like.sizes() && (x.strides() == like.strides() || (x.is_contiguous() && like.is_contiguous()));
}
Tensor empty_like(Tensor const& x, at::ScalarType type) { return at::empty_like(x, x.options().dtype(type)); }
bool is_empty(Tensor const& x) { return x.numel() == 0; }
std::size_t element_bytes(Tensor const& x) { return static_cast<std::size_t>(x.element_size()); }

// Throws buffer_error unless a tensor is strided, on the CPU, and has memory.
void require_memory(Tensor const& x, place const& here) {
    if (!x.is_cpu())
        detail::fail<buffer_error>({here.text()}, {here.subject(), " is on ", x.device().str()}, {"the CPU"});
    if (x.layout() != at::kStrided) {
        std::ostringstream layout;
        layout << x.layout();
        detail::fail<buffer_error>({here.text()}, {here.subject(), " has the layout ", layout.str()}, {"Strided"});
    }
    if (is_empty(x)) return;
    if (!x.has_storage() || x.data_ptr() == nullptr)
        detail::fail<buffer_error>({here.text()}, {here.subject(), " has no memory"},
                                   {"a tensor on the CPU that has its memory"});
    if (reinterpret_cast<std::uintptr_t>(x.data_ptr()) % element_bytes(x) != 0)
        detail::fail<buffer_error>(
            {here.text()}, {here.subject(), " is not aligned"},
            {"an address that is a multiple of ", element_bytes(x), ", the bytes of an element"});
}

// The bytes from the first element of a tensor to the end of its last one.
struct extent {
    char const* first;
    std::size_t bytes;
    bool is_written;

    static extent of(Tensor const& x, bool is_written) {
        std::int64_t reach = x.numel();
        if (!x.is_non_overlapping_and_dense()) {
            reach = 1;
            for (std::int64_t i = 0; i < x.dim(); ++i) reach += x.stride(i) * (x.size(i) - 1);
        }
        std::size_t const bytes = is_empty(x) ? 0 : static_cast<std::size_t>(reach) * element_bytes(x);
        return {static_cast<char const*>(x.data_ptr()), bytes, is_written};
    }
    bool overlaps(extent const& x) const { return first < x.first + x.bytes && x.first < first + bytes; }
};

// The step of one parameter.
template <class State> struct entry {
    place here = {0, 0};
    Tensor own = {};                                               // the parameter
    Tensor weight = {}, gradient = {};                             // `own` and its gradient, or copies
    std::array<Tensor, runtime::most_slots> slots = {}, kept = {}; // kept: the whole slots, if `slots` are rows of them
    std::vector<at::indexing::TensorIndex> rows = {};              // of a sparse gradient
    gradstep::shape shape = {};
    State* state = nullptr; // null: `made`
    std::unique_ptr<State> made = {};
    std::int64_t number = 1; // of this parameter's step
    clock_state clock = {};

    bool is_copy() const { return !weight.is_same(own); }
};

// Parameters that one call updates.
struct batch {
    typed_updater* by;
    std::size_t group;
    double rate;
    std::int64_t number; // of the step of the first parameter
    clock_state clock;
    std::vector<std::size_t> members = {};
};

template <class Kind> class torch_step {
    using options_type = typename Kind::options_type;
    using state_type = typename Kind::state_type;
    using group_type = kept_group<options_type>;
    using entry_type = entry<state_type>;

public:
    torch_step(::torch::optim::Optimizer& of, std::shared_ptr<void>& kept)
        : of_(of), kept_(found_in(kept)), groups_(kept_.groups) {}

    // Makes the updaters of all groups, for the dtypes of their parameters.
    void make_updaters() {
        for (std::size_t g = 0; g < of_.param_groups().size(); ++g) {
            options_of(g);
            auto const& parameters = of_.param_groups()[g].params();
            for (std::size_t i = 0; i < parameters.size(); ++i) updater_of(g, i, parameters[i].scalar_type());
        }
    }

    void take(Tensor const& loss) {
        collect();
        if (entries_.empty()) return;
        if (!shares_memory()) {
            prepare(loss);
            run();
            return;
        }
        // One after the other, as in torch. All have been checked; a second one sees what the first
        // one has written.
        for (batch const& x : batches_)
            if (x.by->by.facts().is_model_wise)
                detail::fail<buffer_error>(
                    {group_name(x.group)},
                    {"parameters share memory, and a model-wise rule updates all of them together"},
                    {"separate memory for each"});
        std::vector<std::pair<std::size_t, std::size_t>> places;
        for (entry_type const& x : entries_) places.emplace_back(x.here.group, x.here.position);
        prepare(loss);
        for (auto const& [group, position] : places) {
            clear();
            add(group, position);
            prepare(loss);
            run();
        }
    }

private:
    static kept_updaters<options_type>& found_in(std::shared_ptr<void>& kept) {
        if (kept == nullptr) kept = std::make_shared<kept_updaters<options_type>>();
        return *static_cast<kept_updaters<options_type>*>(kept.get());
    }
    static bool same_but_rate(options_type const& a, options_type b) {
        b.lr(a.lr());
        return a == b;
    }

    void clear() {
        entries_.clear();
        batches_.clear();
        extents_.clear();
    }

    // The options of a group. Makes its updaters anew if more than the rate has changed.
    options_type const& options_of(std::size_t g) {
        auto const* const options = dynamic_cast<options_type const*>(&of_.param_groups()[g].options());
        if (options == nullptr)
            detail::fail<value_error>({group_name(g)}, {"its options are of another optimizer"}, {Kind::options_name});
        if (!(options->lr() >= 0) || std::isinf(options->lr()))
            detail::fail<value_error>({group_name(g) + ": lr"}, {options->lr(), " is out of range"},
                                      {ranges::non_negative.text});
        if (g < groups_.size() && same_but_rate(groups_[g].options, *options)) return *options;
        of_group(g, [&] {
            auto const* const defaults = dynamic_cast<options_type const*>(&of_.defaults());
            optimizer_configuration made = Kind::configuration_of(*options, defaults == nullptr ? *options : *defaults);
            nonfinite const mode = std::exchange(made.options.on_nonfinite, nonfinite::propagate);
            group_type group{*options, std::move(made), mode};
            if (g < groups_.size()) groups_[g] = std::move(group);
            else groups_.push_back(std::move(group));
        });
        return *options;
    }
    typed_updater& updater_of(std::size_t g, std::size_t position, at::ScalarType type) {
        std::size_t const element = index_of_element(type);
        if (element == elements.size())
            detail::fail<value_error>({place{g, position}.text()}, {"is of ", text_of(type)}, {elements_text});
        auto& found = groups_[g].by_element[element];
        if (found == nullptr)
            found = of_group(
                g, [&] { return std::make_unique<typed_updater>(groups_[g].configuration, elements[element].of); });
        return *found;
    }

    void collect() {
        std::size_t count = 0;
        for (auto const& group : of_.param_groups()) count += group.params().size();
        entries_.reserve(count);
        for (std::size_t g = 0; g < of_.param_groups().size(); ++g)
            for (std::size_t i = 0; i < of_.param_groups()[g].params().size(); ++i) add(g, i);
        for (batch const& x : batches_)
            for (batch const& other : batches_)
                if (&x != &other && x.by->by.facts().is_model_wise && other.by->by.facts().is_model_wise &&
                    x.by->by.hash_of_rule() == other.by->by.hash_of_rule())
                    refuse_model(x);
    }
    // Whether memory that the step writes overlaps other memory of the step.
    bool shares_memory() {
        kept_.apart.begin(extents_.size());
        for (extent const& x : extents_) kept_.apart.add(x.first, x.bytes, x.is_written);
        return kept_.apart.find().has_value();
    }

    // Adds the step of a parameter if it has a gradient.
    void add(std::size_t g, std::size_t position) {
        Tensor const& own = of_.param_groups()[g].params()[position];
        Tensor const& gradient = own.grad();
        if (!gradient.defined()) return;
        options_type const& options = options_of(g);
        place const here{g, position};
        require_memory(own, {g, position, "the tensor"});
        typed_updater& updater = updater_of(g, position, own.scalar_type());
        any_updater const& by = updater.by;
        bool const is_dense = own.is_non_overlapping_and_dense();
        if (!is_dense && at::has_internal_overlap(own) == at::MemOverlap::Yes)
            detail::fail<buffer_error>({here.text()}, {"its elements share memory, as after expand()"}, {"a clone()"});
        if (own.is_inference() && !c10::InferenceMode::is_enabled())
            detail::fail<buffer_error>({here.text()}, {"was made in inference mode"},
                                       {"a tensor made outside, or a step inside"});
        sparse_gradients const how = sparse_of(by, options, here);
        require_gradient(gradient, own, how, {g, position, "the gradient"});
        if (!is_taken(gradient, groups_[g].on_nonfinite, here)) {
            skipped_.push_back(&updater);
            return;
        }

        entry_type x;
        x.here = here;
        x.own = own;
        bool const uses_shape = by.facts().uses_shape;
        bool const is_direct =
            own.scalar_type() == updater.type && !own.is_neg() && (uses_shape ? own.is_contiguous() : is_dense);
        if (is_direct) x.weight = own;
        else
            x.weight =
                (uses_shape ? at::empty(own.sizes(), own.options().dtype(updater.type)) : empty_like(own, updater.type))
                    .copy_(own);
        if (uses_shape && own.dim() > 1 && !is_empty(own))
            x.shape = {static_cast<std::size_t>(own.size(0)), static_cast<std::size_t>(own.numel() / own.size(0))};
        if (by.compiled().facts().needs_matrix && !x.shape.is_known())
            detail::fail<size_error>({here.text()}, {"has the shape ", text_of(own.sizes())},
                                     {"a matrix; give vectors to a group with another config"});
        adopt_state(x, updater);
        std::size_t const written = extents_.size();
        extents_.push_back(extent::of(own, true));
        for (std::size_t i = 0; i < by.slots(); ++i) extents_.push_back(extent::of(x.slots[i], true));
        if (gradient.is_sparse() && how == sparse_gradients::rows) take_rows(x, by, gradient);
        else x.gradient = readable(gradient, x.weight, written);
        if (x.gradient.is_same(gradient)) extents_.push_back(extent::of(gradient, false));
        join_batch(updater, options.lr(), x);
        entries_.push_back(std::move(x));
    }

    static sparse_gradients sparse_of(any_updater const& by, options_type const& options, place const& here) {
        sparse_gradients const how = Kind::sparse(options);
        if (how == sparse_gradients::rows && (by.facts().is_whole() || by.facts().is_model_wise))
            detail::fail<value_error>({here.text()}, {"sparse_rows is true, and the rule looks at whole tensors"},
                                      {"an elementwise rule, or sparse_rows false"});
        return how;
    }
    static void require_gradient(Tensor const& gradient, Tensor const& own, sparse_gradients how, place const& here) {
        if (gradient.layout() != at::kSparse) require_memory(gradient, here);
        else if (how == sparse_gradients::refused)
            detail::fail<buffer_error>({here.text()}, {here.subject(), " is sparse"}, {"a dense one"});
        else if (how == sparse_gradients::refused_with_decay)
            detail::fail<buffer_error>({here.text()}, {here.subject(), " is sparse"},
                                       {"a dense one, or no weight_decay"});
        else if (gradient.device().type() != at::kCPU)
            detail::fail<buffer_error>({here.text()}, {here.subject(), " is on ", gradient.device().str()},
                                       {"the CPU"});
        if (gradient.scalar_type() != own.scalar_type())
            detail::fail<value_error>({here.text()}, {here.subject(), " is of ", text_of(gradient.scalar_type())},
                                      {text_of(own.scalar_type())});
        if (gradient.sizes() != own.sizes())
            detail::fail<size_error>({here.text()}, {here.subject(), " has the shape ", text_of(gradient.sizes())},
                                     {text_of(own.sizes())});
    }
    static bool is_taken(Tensor const& gradient, nonfinite mode, place const& here) {
        if (mode == nonfinite::propagate) return true;
        Tensor const values = gradient.is_sparse() ? gradient.coalesce().values() : gradient;
        bool const is_finite = at::isfinite(values).all().template item<bool>();
        if (!is_finite && mode == nonfinite::raise)
            detail::fail<nonfinite_error>(
                {here.text()}, {"the gradient is not finite, and on_nonfinite is \"raise\": no step is taken"});
        return is_finite;
    }
    // Finds the state of a parameter, or makes the state at step 0.
    void adopt_state(entry_type& x, typed_updater const& updater) {
        any_updater const& by = updater.by;
        std::size_t const n = by.slots(), size = static_cast<std::size_t>(x.weight.numel());
        at::ScalarType const type = type_of(by.state_type());
        auto const known = of_.state().find(x.own.unsafeGetTensorImpl());
        if (known != of_.state().end() && known->second != nullptr) {
            x.state = dynamic_cast<state_type*>(known->second.get());
            if (x.state == nullptr)
                detail::fail<value_error>({x.here.text()}, {"its state is of another optimizer"},
                                          {"the state of this class"});
        } else x.made = std::make_unique<state_type>();
        std::size_t missing = 0;
        for (std::size_t i = 0; i < n; ++i) {
            std::size_t const length = by.slot_size(i, size, x.shape);
            Tensor const like = length == size ? x.weight : at::empty({static_cast<std::int64_t>(length)}, type);
            Tensor const old = x.state == nullptr ? Tensor() : Kind::slot_of(*x.state, by, i);
            missing += !old.defined();
            if (old.defined())
                require_slot(old, like, {x.here.group, x.here.position, "its state", Kind::name_of(by, i)});
            if (old.defined() && fits(old, like, type)) x.slots[i] = old;
            else x.slots[i] = old.defined() ? empty_like(like, type).copy_(old) : empty_like(like, type);
        }
        std::optional<std::int64_t> const steps = x.state == nullptr ? 0 : Kind::steps_of(*x.state);
        bool const is_first = missing != 0 || (x.state == nullptr && n != 0);
        if (x.state != nullptr && steps && missing != 0)
            detail::fail<value_error>({x.here.text()}, {"its state lacks ", missing, " of ", names_of(by)},
                                      {"all of them, or no state"});
        if (steps && (*steps < 0 || *steps >= most_steps))
            detail::fail<value_error>({x.here.text()}, {"its step is ", *steps}, {"a count of steps"});
        x.number = steps ? *steps + 1 : is_first ? 1 : 2;
        if (x.state != nullptr && !by.facts().clock_state_names.empty()) x.clock = Kind::clock_of(*x.state, x.here);
        if (x.state == nullptr && by.facts().is_model_wise) begin_with_model(x, by);
        if (missing != 0) {
            std::vector<any_span> const slots = spans_of(x, by);
            by.initialize({span_of(x.weight, by.storage()), {}, slots, {}, 1, 1, {}, x.shape});
        }
    }
    static void require_slot(Tensor const& old, Tensor const& like, place const& here) {
        require_memory(old, here);
        if (old.sizes() != like.sizes())
            detail::fail<size_error>({here.text()}, {here.subject(), " has the shape ", text_of(old.sizes())},
                                     {text_of(like.sizes())});
        if (!old.is_floating_point())
            detail::fail<value_error>({here.text()}, {here.subject(), " is of ", text_of(old.scalar_type())},
                                      {elements_text});
    }
    static std::string names_of(any_updater const& by) {
        std::string out;
        for (std::size_t i = 0; i < by.slots(); ++i) out += (i == 0 ? "" : ", ") + std::string(Kind::name_of(by, i));
        return out;
    }
    // A parameter without state begins at the step and the clock of its model.
    void begin_with_model(entry_type& x, any_updater const& by) const {
        for (Tensor const& other : of_.param_groups()[x.here.group].params()) {
            auto const known = of_.state().find(other.unsafeGetTensorImpl());
            if (known == of_.state().end()) continue;
            auto const* const state = dynamic_cast<state_type const*>(known->second.get());
            if (state == nullptr || !Kind::steps_of(*state)) continue;
            x.number = *Kind::steps_of(*state) + 1;
            if (!by.facts().clock_state_names.empty()) x.clock = Kind::clock_of(*state, x.here);
            return;
        }
    }

    // A gradient in the layout and dtype of the weight, apart from what the step of its parameter
    // writes.
    Tensor readable(Tensor const& gradient, Tensor const& weight, std::size_t written) const {
        if (fits(gradient, weight, weight.scalar_type())) {
            extent const own = extent::of(gradient, false);
            bool const is_apart = std::none_of(extents_.begin() + static_cast<std::ptrdiff_t>(written), extents_.end(),
                                               [&](extent const& x) { return x.overlaps(own); });
            if (is_apart) return gradient;
        }
        Tensor const source = gradient.is_sparse() ? gradient.to_dense() : gradient;
        return empty_like(weight, weight.scalar_type()).copy_(source);
    }
    // Copies of the rows of a sparse gradient, for the weights and every slot.
    static void take_rows(entry_type& x, any_updater const& by, Tensor const& gradient) {
        Tensor const whole = gradient.coalesce();
        for (Tensor const& of_dimension : whole.indices().unbind()) x.rows.emplace_back(of_dimension);
        x.weight = x.weight.index(x.rows).contiguous();
        x.gradient = empty_like(x.weight, x.weight.scalar_type()).copy_(whole.values());
        for (std::size_t i = 0; i < by.slots(); ++i) {
            x.kept[i] = x.slots[i];
            x.slots[i] = x.kept[i].index(x.rows).contiguous();
        }
    }

    void join_batch(typed_updater& updater, double rate, entry_type const& x) {
        auto const takes = [&](batch const& of) {
            return of.by == &updater && (!updater.has_one_clock() || (of.number == x.number && of.clock == x.clock));
        };
        auto found = std::find_if(batches_.rbegin(), batches_.rend(), takes);
        if (found == batches_.rend()) {
            batches_.push_back({&updater, x.here.group, rate, x.number, x.clock});
            found = batches_.rbegin();
        }
        found->members.push_back(entries_.size());
    }

    [[noreturn]] static void refuse_model(batch const& of) {
        detail::fail<value_error>(
            {group_name(of.group)},
            {"a model-wise rule updates all parameters together, and they differ in group, dtype, "
             "step or clock"},
            {"one group of parameters of one dtype, with the same step"});
    }
    // Prepares the steps of all batches, so that numbers out of range throw before the first write.
    void prepare(Tensor const& loss) {
        for (batch const& x : batches_)
            of_group(x.group, [&] {
                options_ = {.rate = x.rate};
                if (x.by->needs_loss) options_.loss = number_of(loss);
                next_step(x);
            });
    }
    static double number_of(Tensor const& loss) {
        if (!loss.defined() || loss.numel() != 1)
            detail::fail<value_error>({"step"}, {"the rule computes its step size from the loss, and none is given"},
                                      {"a closure that returns it"});
        return loss.item<double>();
    }
    void next_step(batch const& x) {
        x.by->by.seek({.step = x.number - 1, .state = x.clock});
        step_options options = options_;
        options.rate = x.rate;
        x.by->by.next_step(options);
    }

    static any_span span_of(Tensor const& x, scalar type) {
        return {type, x.data_ptr(), static_cast<std::size_t>(x.numel())};
    }
    static std::vector<any_span> spans_of(entry_type const& x, any_updater const& by) {
        std::vector<any_span> out;
        for (std::size_t i = 0; i < by.slots(); ++i) out.push_back(span_of(x.slots[i], by.state_type()));
        return out;
    }

    void run() {
        // If a gradient of a model-wise rule is left out, no parameter of the rule takes the step.
        std::erase_if(batches_, [&](batch const& of) {
            return of.by->by.facts().is_model_wise &&
                   std::find(skipped_.begin(), skipped_.end(), of.by) != skipped_.end();
        });
        for (batch const& of : batches_)
            for (std::size_t const k : of.members) commit(entries_[k], of.by->by);
        for (batch const& of : batches_) {
            any_updater& by = of.by->by;
            if (batches_.size() > 1) next_step(of); // another batch may have prepared the same updater
            std::size_t const n = by.slots();
            std::vector<any_tensor> tensors;
            std::vector<any_span> slots;
            tensors.reserve(of.members.size());
            slots.reserve(of.members.size() * n);
            for (std::size_t const k : of.members) {
                entry_type& x = entries_[k];
                for (std::size_t i = 0; i < n; ++i) slots.push_back(span_of(x.slots[i], by.state_type()));
                any_tensor& to = tensors.emplace_back();
                to.values = span_of(x.weight, by.storage());
                to.gradient = span_of(x.gradient, by.storage());
                to.slots = std::span(slots).last(n);
                to.id =
                    static_cast<std::uint64_t>(by.options().id) + (std::uint64_t{x.here.group} << 32) + x.here.position;
                to.shape = x.shape;
                if (x.number != of.number) to.step = x.number;
            }
            by.apply(tensors, threads_);
            for (std::size_t const k : of.members) store(entries_[k], by);
            if (by.facts().is_model_wise) advance_idle(of);
        }
    }
    // Puts the new state of a parameter into the optimizer.
    void commit(entry_type& x, any_updater const& by) {
        if (x.state == nullptr && (by.slots() != 0 || Kind::steps_of(*x.made))) {
            x.state = x.made.get();
            of_.state()[x.own.unsafeGetTensorImpl()] = std::move(x.made);
        }
        if (x.state == nullptr) return;
        for (std::size_t i = 0; i < by.slots(); ++i)
            Kind::set_slot(*x.state, by, i, x.rows.empty() ? x.slots[i] : x.kept[i]);
    }
    // Copies back what the step has not written in its place, and counts the step.
    static void store(entry_type& x, any_updater const& by) {
        if (!x.rows.empty()) {
            x.own.index_put_(x.rows, x.weight.to(x.own.scalar_type()));
            for (std::size_t i = 0; i < by.slots(); ++i) x.kept[i].index_put_(x.rows, x.slots[i]);
        } else if (x.is_copy()) x.own.copy_(x.weight);
        // Autograd then throws if a backward pass needs the old values.
        else if (!x.own.is_inference()) x.own.unsafeGetTensorImpl()->bump_version();
        if (x.state != nullptr) Kind::set_clock(*x.state, by, x.number, by.clock().state);
    }
    // Sets the clocks of the parameters of a model-wise rule that have no gradient in this step.
    void advance_idle(batch const& of) {
        for (Tensor const& parameter : of_.param_groups()[of.group].params()) {
            auto const known = of_.state().find(parameter.unsafeGetTensorImpl());
            if (known != of_.state().end())
                Kind::set_clock(static_cast<state_type&>(*known->second), of.by->by, of.number,
                                of.by->by.clock().state);
        }
    }

    static constexpr std::int64_t most_steps = std::int64_t{1} << 53;

    ::torch::optim::Optimizer& of_;
    kept_updaters<options_type>& kept_;
    std::vector<group_type>& groups_;
    std::vector<entry_type> entries_ = {};
    std::vector<batch> batches_ = {};
    std::vector<extent> extents_ = {};
    step_options options_ = {};
    torch_threads threads_ = {};
    std::vector<typed_updater const*> skipped_ = {}; // with a gradient that is not finite
};

template <class Kind>
Tensor take_step(::torch::optim::Optimizer& of, std::shared_ptr<void>& kept,
                 ::torch::optim::Optimizer::LossClosure const& closure) {
    at::NoGradGuard const no_gradients;
    Tensor loss;
    if (closure != nullptr) {
        at::AutoGradMode const gradients(true);
        loss = closure();
    }
    torch_step<Kind>(of, kept).take(loss);
    return loss;
}

} // namespace

::torch::Tensor AdamW::step(LossClosure closure) { return take_step<adamw_kind>(*this, updaters_, closure); }
::torch::Tensor SGD::step(LossClosure closure) { return take_step<sgd_kind>(*this, updaters_, closure); }
::torch::Tensor Optimizer::step(LossClosure closure) { return take_step<any_kind>(*this, updaters_, closure); }

Optimizer::Optimizer(std::vector<::torch::optim::OptimizerParamGroup> const& groups, OptimizerOptions defaults)
    : ::torch::optim::Optimizer(groups, std::make_unique<OptimizerOptions>(defaults)) {
    torch_step<any_kind>(*this, updaters_).make_updaters();
}

void Optimizer::save(::torch::serialize::OutputArchive& archive) const {
    ::torch::optim::serialize<OptimizerParamState, OptimizerOptions>(archive, *this);
}
void Optimizer::load(::torch::serialize::InputArchive& archive) {
    ::torch::optim::serialize<OptimizerParamState, OptimizerOptions>(archive, *this);
}

void OptimizerOptions::serialize(::torch::serialize::OutputArchive& archive) const {
    archive.write("lr", c10::IValue(lr()));
    archive.write("config", c10::IValue(config()));
    archive.write("sparse_rows", c10::IValue(sparse_rows()));
}
void OptimizerOptions::serialize(::torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("lr", value);
    lr(value.toDouble());
    archive.read("config", value);
    config(value.toStringRef());
    archive.read("sparse_rows", value);
    sparse_rows(value.toBool());
}

void OptimizerParamState::serialize(::torch::serialize::OutputArchive& archive) const {
    archive.write("step", c10::IValue(step()));
    archive.write("clock", c10::IValue(clock()));
    ::torch::serialize::OutputArchive of_slots(archive.compilation_unit());
    for (auto const& [name, slot] : slots()) of_slots.write(name, slot, /*is_buffer=*/true);
    archive.write("slots", of_slots);
}
void OptimizerParamState::serialize(::torch::serialize::InputArchive& archive) {
    c10::IValue value;
    archive.read("step", value);
    step(value.toInt());
    archive.read("clock", value);
    clock(value.toDoubleVector());
    ::torch::serialize::InputArchive of_slots;
    archive.read("slots", of_slots);
    slots().clear();
    for (std::string const& name : of_slots.keys()) of_slots.read(name, slots()[name], /*is_buffer=*/true);
}

} // namespace gradstep::torch_optim
