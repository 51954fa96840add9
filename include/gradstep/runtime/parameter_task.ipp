#pragma once
#include <gradstep/model/detail/name_index.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME any_owning_task::any_owning_task(std::string of, any_parameter owned, tensor_options options)
    : parameter_task(std::move(of), owned.optimizer().facts().is_model_wise), parameter_(std::move(owned)),
      options_(options) {
    parameter_.set_name(name, true);
    if (parameter_.stamps() != nullptr)
        fail<value_error>({name, ": catch_up"}, {"a parameter of a model takes every step as a whole"}, {"touch_only"});
    if (options_.decay == 1) return;
    // A step is compiled with its regularizer or without: here, its decaying parts are removed.
    parameter_.optimizer() = parameter_.optimizer().with_decay(options_.decay);
}

GRADSTEP_DEFINE_RUNTIME void any_owning_task::take_gradient(named_gradient const& given, step_options const& options) {
    named([&] {
        scalar const type = storage();
        with_type(type, [&]<class S>() {
            if (given.storage != type_id_of<S>())
                fail<value_error>({"gradient"}, {"is of another type than the parameter"}, {enumerator(type)});
        });
        if (!given.may_be_host) fail<buffer_error>({"gradient"}, {"lives on a device"}, {"the host's memory"});
        any_span gradient(type, given.data, given.size);
        gradient.is_writable = given.is_writable;
        parameter_.take_gradient(gradient, options, "update");
    });
}

GRADSTEP_DEFINE_RUNTIME void any_owning_task::prepare(step_options const& options, double clip) {
    named([&] { parameter_.advance(clipped(options, clip), options_); });
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<pending_rows> any_owning_task::rearranged(row_order const& order,
                                                                                  named_gradient const* added) {
    any_span values;
    if (added != nullptr) {
        char const* const element = parameter_.optimizer().facts().element;
        with_type(storage(), [&]<class S>() { require_added(*added, type_id_of<S>(), element); });
        values = any_span(storage(), added->data, added->size);
    }
    return std::make_unique<pending>(parameter_, parameter_.rearranged(order, {values}));
}

GRADSTEP_DEFINE_RUNTIME void any_owning_task::append_slots(std::vector<std::string>& to) const {
    any_updater const& of = parameter_.optimizer();
    for (std::size_t i = 0; i < of.slots(); ++i) to.emplace_back(of.slot_name(i));
}

GRADSTEP_DEFINE_RUNTIME bool any_owning_task::average(type_id element, void* out) {
    return with_type(parameter_.optimizer().state_type(), [&]<class S>() {
        if (element != type_id_of<S>()) return false;
        std::vector<S> averages(size());
        parameter_.average(averages);
        *static_cast<std::vector<S>*>(out) = std::move(averages);
        return true;
    });
}

GRADSTEP_DEFINE_RUNTIME any_borrowing_task::any_borrowing_task(std::string const& of, any_updater const& optimizer,
                                                               any_tensor const& given, tensor_options options)
    : base(of, made(of, optimizer, given), options), slots_(given.slots.begin(), given.slots.end()), tensor_(given),
      follows_(refers(given)) {
    tensor_.slots = slots_;
    any_span const gradient = given.gradient.now();
    if (gradient.size != 0) named([&] { memory().take_gradient(gradient, {}, "add"); });
}

GRADSTEP_DEFINE_RUNTIME void any_borrowing_task::take_gradient(named_gradient const& given,
                                                               step_options const& options) {
    follow();
    base::take_gradient(given, options);
}

GRADSTEP_DEFINE_RUNTIME bool any_borrowing_task::take_own_gradient(step_options const& options) {
    follow();
    any_span const gradient = tensor_.gradient.now();
    if (gradient.size == 0 && size() != 0) return false;
    named([&] { memory().take_gradient(gradient, options, "update"); });
    return true;
}

GRADSTEP_DEFINE_RUNTIME void any_borrowing_task::visit_state(state_visitor& to) {
    follow();
    base::visit_state(to);
}

GRADSTEP_DEFINE_RUNTIME void any_borrowing_task::weights_set() {
    follow();
    base::weights_set();
}

GRADSTEP_DEFINE_RUNTIME bool any_borrowing_task::average(type_id element, void* out) {
    follow();
    return base::average(element, out);
}

GRADSTEP_DEFINE_RUNTIME void any_borrowing_task::apply_average() {
    follow();
    base::apply_average();
}

GRADSTEP_DEFINE_RUNTIME void any_borrowing_task::restore() {
    follow();
    named([&] { base::restore(); });
}

GRADSTEP_DEFINE_RUNTIME any_parameter any_borrowing_task::made(std::string const& of, any_updater const& optimizer,
                                                               any_tensor const& given) {
    auto id = static_cast<std::uint64_t>(optimizer.options().id);
    if (given.id) id = *given.id - hash_of(of); // set_name adds the hash
    std::optional<any_parameter> out;
    with_context([&] { return of + ": "; }, [&] { out.emplace(optimizer, given, parameter_options{.id = id}); });
    return *std::move(out);
}

GRADSTEP_DEFINE_RUNTIME bool any_borrowing_task::refers(any_tensor const& x) {
    bool any = x.values.container.container != nullptr;
    for (any_span const& slot : x.slots) any = any || slot.container.container != nullptr;
    return any;
}

GRADSTEP_DEFINE_RUNTIME void any_borrowing_task::follow() {
    if (follows_) named([&] { memory().refer_to(tensor_); });
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME std::unique_ptr<detail::parameter_task> make_task(std::string name, any_parameter owned,
                                                                          tensor_options options) {
    return std::make_unique<detail::any_owning_task>(std::move(name), std::move(owned), options);
}

GRADSTEP_DEFINE_RUNTIME std::unique_ptr<detail::parameter_task>
make_task(std::string name, any_updater const& optimizer, any_tensor const& tensor, tensor_options options) {
    return std::make_unique<detail::any_borrowing_task>(name, optimizer, tensor, options);
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
