#pragma once
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/optim/optimizer.h>

#include <gradstep/adapt/libtorch/entry.hpp>
#include <gradstep/adapt/libtorch/kinds.hpp>
#include <gradstep/adapt/libtorch/memory.hpp>
#include <gradstep/adapt/libtorch/rows.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/config.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/policy/hyperparameters.hpp>
#include <gradstep/policy/parameter_options.hpp>
#include <gradstep/policy/shape.hpp>
#include <gradstep/runtime/any_span.hpp>
#include <gradstep/runtime/any_updater.hpp>
#include <gradstep/step/step_options.hpp>

// One step of an optimizer. `collect` finds and checks the memory of every parameter that has a
// gradient, and writes nothing. `prepare` prepares the steps of the updaters, which throws if a
// number is out of range. `run` puts the new state into the optimizer and updates the memory.
namespace gradstep::detail::libtorch::inline GRADSTEP_ABI {
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
        read_options();
        for (std::size_t g = 0; g < options_.size(); ++g) {
            auto const& parameters = of_.param_groups()[g].params();
            for (std::size_t i = 0; i < parameters.size(); ++i) updater_of(g, i, parameters[i].scalar_type());
        }
    }

    // Changes the rows of parameters: all of them, or after an error none. rows_of(path, k) returns
    // the rows of parameters[k].
    template <class RowsOf>
    void change_rows(char const* call, std::vector<Tensor> const& parameters, RowsOf const& rows_of) {
        at::NoGradGuard const no_gradients;
        read_options();
        std::vector<row_change<Kind>> changes;
        for (std::size_t k = 0; k < parameters.size(); ++k) {
            tensor_path const here = path_of(of_, parameters, k, call);
            new_rows const rows = rows_of(here, k);
            require_rows(rows, call, here);
            require_alone(of_, rows.parameter, call, here);
            auto const known = of_.state().find(parameters[k].unsafeGetTensorImpl());
            auto* const state = known == of_.state().end() ? nullptr : dynamic_cast<state_type*>(known->second.get());
            changes.emplace_back(rows, updater_of(here.group, here.position, parameters[k].scalar_type()).by, state,
                                 here);
        }
        for (row_change<Kind>& change : changes) change.take();
    }

    // Adapts the state of all parameters that have one to weights that other code has set.
    void weights_set() {
        read_options();
        for (std::size_t g = 0; g < of_.param_groups().size(); ++g)
            for (std::size_t i = 0; i < of_.param_groups()[g].params().size(); ++i) {
                Tensor const& own = of_.param_groups()[g].params()[i];
                if (of_.state().find(own.unsafeGetTensorImpl()) == of_.state().end()) continue;
                typed_updater& updater = checked_updater(g, i);
                find_memory(entries_.emplace_back(), updater, {g, i});
                updaters_.push_back(&updater);
            }
        for (std::size_t k = 0; k < entries_.size(); ++k) {
            entry_type& x = entries_[k];
            any_updater const& by = updaters_[k]->by;
            by.weights_set(x.tensor(by, spans_of(x, by)));
            commit(x, by);
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
        std::vector<std::pair<std::size_t, std::size_t>> positions;
        for (entry_type const& x : entries_) positions.emplace_back(x.here.group, x.here.position);
        prepare(loss);
        for (auto const& [group, position] : positions) {
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

    // Finds the options of all groups. Makes the updaters of a group anew if more than its rate has
    // changed.
    void read_options() {
        auto const* const defaults = dynamic_cast<options_type const*>(&of_.defaults());
        for (std::size_t g = 0; g < of_.param_groups().size(); ++g) {
            auto const* const options = dynamic_cast<options_type const*>(&of_.param_groups()[g].options());
            if (options == nullptr)
                detail::fail<value_error>({group_name(g)}, {"its options are of another optimizer"},
                                          {Kind::options_name});
            if (!ranges::non_negative.contains(options->lr()))
                detail::fail<value_error>({group_name(g) + ": lr"}, {options->lr(), " is out of range"},
                                          {ranges::non_negative.text});
            options_.push_back(options);
            if (g < groups_.size() && same_but_rate(groups_[g].options, *options)) continue;
            of_group(g, [&] {
                optimizer_configuration made =
                    Kind::configuration_of(*options, defaults == nullptr ? *options : *defaults);
                if (g < groups_.size() && has_state(g))
                    detail::require_same_constants(made.policies, groups_[g].configuration.policies);
                nonfinite const mode = std::exchange(made.options.on_nonfinite, nonfinite::propagate);
                group_type group{*options, std::move(made), mode};
                if (g < groups_.size()) groups_[g] = std::move(group);
                else groups_.push_back(std::move(group));
            });
        }
    }
    bool has_state(std::size_t g) const {
        auto const& parameters = of_.param_groups()[g].params();
        return std::any_of(parameters.begin(), parameters.end(),
                           [&](Tensor const& one) { return of_.state().count(one.unsafeGetTensorImpl()) != 0; });
    }
    typed_updater& updater_of(std::size_t g, std::size_t position, at::ScalarType type) {
        std::size_t const element = index_of_element(type);
        if (element == elements.size())
            detail::fail<value_error>({tensor_path{g, position}.text()}, {"is of ", text_of(type)}, {elements_text});
        auto& found = groups_[g].by_element[element];
        if (found == nullptr)
            found = of_group(
                g, [&] { return std::make_unique<typed_updater>(groups_[g].configuration, elements[element].of); });
        return *found;
    }

    void collect() {
        read_options();
        std::size_t count = 0;
        for (auto const& group : of_.param_groups()) count += group.params().size();
        entries_.reserve(count);
        extents_.reserve(5 * count); // of a parameter, its gradient and three slots
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
        options_type const& options = *options_[g];
        tensor_path const here{g, position};
        typed_updater& updater = checked_updater(g, position);
        any_updater const& by = updater.by;
        sparse_gradients const how = sparse_of<Kind>(by, options, here);
        require_gradient(gradient, own, how, {g, position, "the gradient"});
        if (!is_taken(gradient, groups_[g].on_nonfinite, here)) {
            skipped_.push_back(&updater);
            return;
        }

        entry_type& x = entries_.emplace_back();
        find_memory(x, updater, here);
        std::size_t const written = extents_.size();
        extents_.push_back(extent::of(own, true));
        for (std::size_t i = 0; i < by.slots(); ++i) {
            extent const slot = extent::of(x.slots[i], true);
            if (!is_apart(slot, written))
                detail::fail<buffer_error>({here.text()}, {"its state ", Kind::name_of(by, i), " shares memory"},
                                           {"memory apart from the parameter's and other state's"});
            extents_.push_back(slot);
        }
        // A gradient without sparse dimensions has no rows.
        if (gradient.is_sparse() && how == sparse_gradients::rows && gradient.sparse_dim() != 0)
            take_rows(x, by, gradient);
        else add_gradient(x, gradient, written);
        join_batch(updater, Kind::rate_of(options, x.number), x);
    }
    // Checks the memory of a parameter, and returns its updater.
    typed_updater& checked_updater(std::size_t g, std::size_t position) {
        Tensor const& own = of_.param_groups()[g].params()[position];
        require_memory(own, {g, position, "the tensor"});
        typed_updater& updater = updater_of(g, position, own.scalar_type());
        require_writable(own, {g, position});
        return updater;
    }
    // Finds the values and the state of a parameter.
    void find_memory(entry_type& x, typed_updater& updater, tensor_path const& here) {
        x.here = here;
        x.own = of_.param_groups()[here.group].params()[here.position];
        take_weight(x, updater);
        adopt_state(x, updater);
    }

    // Finds the state of a parameter, or makes the state at step 0.
    void adopt_state(entry_type& x, typed_updater const& updater) {
        any_updater const& by = updater.by;
        std::size_t const n = by.slots(), size = static_cast<std::size_t>(x.weight.numel());
        at::ScalarType const type = type_of(by.state_type());
        auto const known = of_.state().find(x.own.unsafeGetTensorImpl());
        if (known != of_.state().end()) {
            if (known->second == nullptr) // torch's load moves the state of such a parameter away
                detail::fail<value_error>({x.here.text()},
                                          {"its state is null, as after a load with a tensor given twice"},
                                          {"each tensor once in the optimizer that loads"});
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
            bool const is_writable = old.defined() && (!old.is_inference() || c10::InferenceMode::is_enabled());
            if (is_writable && fits(old, like, type)) x.slots[i] = old;
            else x.slots[i] = old.defined() ? empty_like(like, type).copy_(old) : empty_like(like, type);
        }
        std::optional<std::int64_t> const steps = x.state == nullptr ? 0 : Kind::steps_of(*x.state);
        bool const is_first = missing != 0 || (x.state == nullptr && n != 0);
        if (x.state != nullptr && steps && missing != 0)
            detail::fail<value_error>({x.here.text()}, {"its state lacks ", missing, " of ", names_of<Kind>(by)},
                                      {"all of them, or no state"});
        if (steps && (*steps < 0 || *steps >= most_steps))
            detail::fail<value_error>({x.here.text()}, {"its step is ", *steps}, {"a count of steps"});
        x.number = steps ? *steps + 1 : is_first ? 1 : 2;
        if (x.state != nullptr && !by.facts().clock_state_names.empty()) x.clock = Kind::clock_of(*x.state, x.here);
        if (x.state == nullptr && by.facts().is_model_wise) begin_with_model(x, by);
        if (missing != 0) {
            by.initialize(x.tensor(by, spans_of(x, by)));
        }
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

    // Whether memory is apart from what the step of a parameter writes, which begins at `written`.
    bool is_apart(extent const& x, std::size_t written) const {
        return std::none_of(extents_.begin() + static_cast<std::ptrdiff_t>(written), extents_.end(),
                            [&](extent const& other) { return other.overlaps(x); });
    }
    // Gives a step its gradient, or a copy if the gradient has another layout or overlaps what the
    // step writes. Another parameter's step can write a gradient that is copied, too.
    void add_gradient(entry_type& x, Tensor const& gradient, std::size_t written) {
        bool is_read = false;
        if (!gradient.is_sparse()) {
            extent const from = extent::of(gradient, false);
            is_read = is_apart(from, written);
            if (is_read) extents_.push_back(from);
        }
        if (is_read && fits(gradient, x.weight, x.weight.scalar_type())) x.gradient = gradient;
        else
            x.gradient = empty_like(x.weight, x.weight.scalar_type())
                             .copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    }
    void join_batch(typed_updater& updater, double rate, entry_type const& x) {
        auto const takes = [&](batch const& of) {
            return of.by == &updater && of.rate == rate &&
                   (!updater.has_one_clock() || (of.number == x.number && of.clock == x.clock));
        };
        auto found = std::find_if(batches_.rbegin(), batches_.rend(), takes);
        if (found == batches_.rend()) {
            batches_.push_back({&updater, x.here.group, rate, x.number, x.clock});
            found = batches_.rbegin();
        }
        found->members.push_back(entries_.size() - 1);
    }

    // Prepares the steps of all batches, so that numbers out of range throw before the first write.
    void prepare(Tensor const& loss) {
        for (batch const& x : batches_)
            of_group(x.group, [&] {
                if (x.by->needs_loss) loss_ = number_of(loss);
                next_step(x);
            });
    }
    void next_step(batch const& x) {
        x.by->by.seek({.step = x.number - 1, .state = x.clock});
        step_options options{.rate = x.rate};
        if (x.by->needs_loss) options.loss = loss_;
        x.by->by.next_step(options);
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
    // Copies back what the step has not written directly, and counts the step.
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
            if (known == of_.state().end()) continue;
            if (auto* const state = dynamic_cast<state_type*>(known->second.get()))
                Kind::set_clock(*state, of.by->by, of.number, of.by->by.clock().state);
        }
    }

    static constexpr std::int64_t most_steps = std::int64_t{1} << 53;

    ::torch::optim::Optimizer& of_;
    kept_updaters<options_type>& kept_;
    std::vector<group_type>& groups_;
    std::vector<entry_type> entries_ = {};
    std::vector<typed_updater*> updaters_ = {}; // of the entries, for weights_set
    std::vector<batch> batches_ = {};
    std::vector<extent> extents_ = {};
    std::vector<options_type const*> options_ = {}; // of the groups
    std::optional<double> loss_ = {};
    torch_threads threads_ = {};
    std::vector<typed_updater const*> skipped_ = {}; // with a gradient that is not finite
};

// A step of an optimizer, behind its `step`.
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
} // namespace gradstep::detail::libtorch::inline GRADSTEP_ABI
