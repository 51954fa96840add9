#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE parameter_task::parameter_task(std::string of, std::unique_ptr<dense_parameter> parameter,
                                               tensor_options const& options)
    : name(std::move(of)), owned_(std::move(parameter)), options_(options) {
    attach(*owned_);
}

GRADSTEP_DEFINE void parameter_task::use_shape(gradstep::shape const& of) {
    if (parameter_->face() != nullptr) parameter_->use_shape(of);
    else named([&] { parameter_->use_shape(of); });
}

GRADSTEP_DEFINE void parameter_task::take_gradient(named_gradient const& given, step_options const& options) {
    named([&] { parameter_->follow(); });
    updater_facts const& facts = parameter_->facts();
    bool const on_host = parameter_->code().memory().on_host;
    bool const fits = given.storage == parameter_->storage_type() &&
                      (on_host ? given.may_be_host : given.may_be_device) && given.size == size() &&
                      (given.data != nullptr || given.size == 0);
    if (!fits && parameter_->is_of_run_time())
        named([&] {
            if (given.storage != parameter_->storage_type())
                fail<value_error>({"gradient"}, {"is of another type than the parameter"},
                                  {info_of(facts.storage).name});
            if (!given.may_be_host) fail<buffer_error>({"gradient"}, {"lives on a device"}, {"the host's memory"});
        });
    else if (!fits) {
        if (given.storage != parameter_->storage_type())
            fail<value_error>({"the gradient of ", name}, {"is of another type than the parameter"},
                              {"the type that ", facts.element, " has in memory"});
        if (!(on_host ? given.may_be_host : given.may_be_device))
            fail<buffer_error>({"the gradient of ", name}, {"is in another memory than the parameter"},
                               {"the memory of the ", on_host ? host_memory::name : device_memory::name});
        if (given.size != size())
            fail<size_error>({"the gradient of ", name}, {"has ", given.size, " elements"}, {size()});
        fail<buffer_error>({"the gradient of ", name}, {"is null"}, {given.size, " elements of memory"});
    }
    named([&] {
        parameter_->take_gradient({given.data, given.size, given.is_writable}, options,
                                  is_slice_ ? "as_slice" : "update");
    });
}

GRADSTEP_DEFINE bool parameter_task::take_own_gradient(step_options const& options) {
    named([&] { parameter_->follow(); });
    auto const own = parameter_->own_gradient();
    if (!own) return false;
    named([&] { parameter_->take_gradient(*own, options, "update"); });
    return true;
}

GRADSTEP_DEFINE void parameter_task::prepare(step_options const& options, double clip) {
    named([&] { parameter_->prepare(options, clip); });
}

GRADSTEP_DEFINE void parameter_task::weights_set() {
    named([&] {
        parameter_->follow();
        parameter_->weights_set();
    });
}

GRADSTEP_DEFINE std::string parameter_task::description() const {
    parameter_->follow(false);
    std::string out = parameter_->by().description();
    if (parameter_->is_of_run_time()) return out;
    if (options_.rate_scale != 1) out += ", rate_scale = " + text(options_.rate_scale);
    return out + text_of(options_.decay);
}

GRADSTEP_DEFINE void parameter_task::visit_state(state_visitor& to) {
    named([&] { parameter_->follow(); });
    if (average_is_applied()) parameter_->require_trained_size(("save: " + name).c_str());
    parameter_->describe_state(to, options_.decay != 0);
}

GRADSTEP_DEFINE void parameter_task::append_slots(std::vector<std::string>& to) const {
    updater_facts const& facts = parameter_->facts();
    for (std::size_t i = 0; i != facts.slots; ++i) {
        to.emplace_back(facts.slot_names[i]);
        if (facts.in_blocks) to.push_back(std::string(facts.slot_names[i]) + ".scales");
    }
}

GRADSTEP_DEFINE std::unique_ptr<pending_rows> parameter_task::rearranged(row_order const& order,
                                                                         named_gradient const* added) {
    if (added == nullptr) return parameter_->changed_rows(order, nullptr, 0);
    require_added(*added, parameter_->storage_type(), parameter_->facts().element);
    return parameter_->changed_rows(order, added->data, added->size);
}

GRADSTEP_DEFINE bool parameter_task::average(type_id element, void* out) {
    named([&] { parameter_->follow(); });
    return parameter_->give_average(element, out);
}

GRADSTEP_DEFINE void parameter_task::apply_average() {
    if (!keeps_average()) return;
    named([&] { parameter_->follow(); });
    parameter_->require_trained("apply_average");
    parameter_->put_average();
}

GRADSTEP_DEFINE void parameter_task::restore() {
    parameter_->follow(parameter_->is_of_run_time());
    if (parameter_->is_of_run_time()) named([&] { parameter_->restore(); });
    else parameter_->restore(("restore: " + name).c_str());
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
