#pragma once
#include <gradstep/version.hpp>

namespace gradstep::distributed::inline GRADSTEP_ABI {
GRADSTEP_DEFINE lockstep::lockstep(char const* mode) : mode_(mode) {}
GRADSTEP_DEFINE lockstep::~lockstep() = default;

GRADSTEP_DEFINE void lockstep::barrier() {
    refuse_stopped("barrier");
    begin();
    finish_step();
    for (auto const& one : parameters_) wait(*one, "the values of ", one->name);
    wait_for_all();
}

GRADSTEP_DEFINE void lockstep::stop() {
    if (has_stopped_) return;
    barrier();
    helper_.reset();
    has_stopped_ = true;
}

GRADSTEP_DEFINE void lockstep::make_room() {
    index_.make_room();
    parameters_.reserve(parameters_.size() + 1);
    operations_.reserve(operations_.size() + 1);
}

GRADSTEP_DEFINE void lockstep::push_back(std::unique_ptr<detail::distributed_parameter> one) {
    parameters_.push_back(std::move(one));
    operations_.push_back(parameters_.back().get());
    index_.push_back(parameters_.back()->name);
}

GRADSTEP_DEFINE void lockstep::refuse_late_add(std::string const& name) const {
    if (has_begun_)
        detail::fail<sequence_error>({"add: ", name}, {"the ranks have begun already"},
                                     {"all parameters before the first step"});
}

GRADSTEP_DEFINE void lockstep::wait(detail::operation& one, std::string_view what, std::string_view of) {
    if (one.test()) return;
    detail::deadline const until(ranks().timeout());
    for (detail::idle_time idle; !one.test(); idle.pass())
        if (until.has_passed())
            detail::refuse_wait(ranks().rank(), std::string(what) + std::string(of), ranks().timeout(), one.missing());
}

GRADSTEP_DEFINE void lockstep::push_bytes(named_gradient const& gradient) {
    refuse_stopped("push");
    detail::distributed_parameter& one = find(gradient.name, "push");
    check(one, gradient, "push", "the gradient of ");
    begin();
    if (one.is_pushed) finish_step();
    wait(one, "the values of ", one.name);
    one.begin_push(gradient.data, incremental_);
    one.is_pushed = true;
    if (++taken_ == parameters_.size()) {
        gradstep::detail::rollback_guard left_out([&] { forget_step(); });
        all_taken();
        left_out.dismiss();
    }
    wake();
}

GRADSTEP_DEFINE void lockstep::pull_bytes(named_gradient const& out) {
    detail::distributed_parameter& one = find(out.name, "pull");
    check(one, out, "pull", "the memory for ");
    if (!out.is_writable)
        detail::fail<buffer_error>({"pull"}, {"the memory for ", one.name, " is read-only"}, {"writable"});
    auto const values = newest(one);
    if (!values.empty()) std::memcpy(const_cast<void*>(out.data), values.data(), values.size());
}

GRADSTEP_DEFINE std::span<std::byte const> lockstep::values_of(std::string_view name, gradstep::detail::type_id type) {
    detail::distributed_parameter& one = find(name, "pull");
    if (one.storage != type)
        detail::fail<value_error>({"pull"}, {"the values of ", one.name, " are read as another type"},
                                  {"the type that ", one.element, " has in memory"});
    return newest(one);
}

GRADSTEP_DEFINE std::span<std::byte const> lockstep::newest(detail::distributed_parameter& one) {
    if (!has_stopped_) begin();
    finish_step();
    wait(one, "the values of ", one.name);
    return one.values();
}

GRADSTEP_DEFINE void lockstep::refuse_stopped(char const* call) const {
    if (has_stopped_) detail::fail<sequence_error>({call}, {"this rank has stopped"}, {"no call after stop"});
}

GRADSTEP_DEFINE detail::distributed_parameter& lockstep::find(std::string_view name, char const* call) {
    std::size_t const i = index_.find(name, [&](std::size_t k) -> std::string const& { return parameters_[k]->name; });
    if (i != gradstep::detail::name_index::none) return *parameters_[i];
    std::string known;
    for (auto const& one : parameters_) known += (known.empty() ? "" : ", ") + one->name;
    detail::fail<value_error>({call}, {"there is no parameter ", name},
                              {known.empty() ? "one that was added" : "one of ", known});
}

GRADSTEP_DEFINE void lockstep::check(detail::distributed_parameter const& one, named_gradient const& memory,
                                     char const* call, char const* what) {
    if (memory.storage != one.storage)
        detail::fail<value_error>({call}, {what, one.name, " is of another type"},
                                  {"the type that ", one.element, " has in memory"});
    if (!memory.may_be_host)
        detail::fail<buffer_error>({call}, {what, one.name, " lives on a device"}, {"memory of the host"});
    if (memory.size != one.size)
        detail::fail<size_error>({call}, {what, one.name, " has ", memory.size, " elements"}, {one.size});
    if (memory.data == nullptr && memory.size != 0)
        detail::fail<buffer_error>({call}, {what, one.name, " is null"}, {memory.size, " elements"});
}

GRADSTEP_DEFINE void lockstep::begin() {
    if (has_begun_) return;
    auto const texts = compare(what_must_agree().encode());
    auto const first = detail::agreement::decode(texts[0], 0);
    for (int r = 1; r != ranks().size(); ++r) {
        std::string const difference =
            first.difference(detail::agreement::decode(texts[static_cast<std::size_t>(r)], r), r);
        if (!difference.empty()) detail::fail<value_error>({"rank ", ranks().rank()}, {difference}, {"the same"});
    }
    on_begin();
    if (auto* const step = incremental(); step != nullptr && step->is_possible()) incremental_ = step;
    has_begun_ = true;
    if (ranks().allows_threads()) helper_.emplace([this] { return help(); });
}

GRADSTEP_DEFINE detail::agreement lockstep::what_must_agree() const {
    detail::agreement own;
    own.add("the version of gradstep", gradstep::detail::joined({GRADSTEP_VERSION_MAJOR, ".", GRADSTEP_VERSION_MINOR,
                                                                 ".", GRADSTEP_VERSION_PATCH}));
    own.add("the mode", mode_);
    own.add("the number of parameters", detail::text(parameters_.size()));
    for (std::size_t i = 0; i != parameters_.size(); ++i)
        own.add("the name of parameter " + detail::text(i), parameters_[i]->name);
    for (auto const& one : parameters_) {
        own.add("the size of " + one->name, detail::text(one->size));
        own.add("the element of " + one->name, one->element);
        own.add("the optimizer of " + one->name,
                gradstep::detail::joined({one->policies(), ", rate_scale = ", one->options.rate_scale,
                                          gradstep::detail::parameter_task::text_of(one->options.decay)}));
        auto const clock = updated_model().clock(one->name);
        own.add("the clock of " + one->name,
                gradstep::detail::joined({"step ", clock.step, ", samples ", clock.samples, ", epoch ", clock.epoch}));
        if (clock.state != clock_state{})
            own.add("the state of the clock of " + one->name,
                    gradstep::detail::joined(
                        {clock.state[0], ", ", clock.state[1], ", ", clock.state[2], ", ", clock.state[3]}));
        auto const values = one->values();
        own.add("the checksum of the values of " + one->name,
                detail::text(gradstep::detail::crc32c(0, values.data(), values.size())));
        own.add("the checksum of the state of " + one->name, one->state_checksum());
    }
    describe_to(own);
    return own;
}

GRADSTEP_DEFINE detail::progress lockstep::help() {
    bool any = false;
    for (detail::operation* const one : operations_) any = one->advance_quietly() || any;
    for (auto const& one : parameters_)
        if (!is_finishing_ && one->step_on()) return detail::progress::made;
    return any ? detail::progress::awaited : detail::progress::none_left;
}

GRADSTEP_DEFINE void lockstep::finish_step() {
    if (taken_ == 0) return;
    if (taken_ != parameters_.size()) {
        std::string pushed, missing;
        for (auto const& one : parameters_) {
            std::string& list = one->is_pushed ? pushed : missing;
            list += (list.empty() ? "" : ", ") + one->name;
        }
        detail::fail<sequence_error>({"step"},
                                     {"the gradients of ", missing, " have not been pushed, only those of ", pushed},
                                     {"a gradient of each parameter"});
    }
    if (incremental_ != nullptr) {
        finish_incremental();
    } else {
        for (auto const& one : parameters_) wait(*one, "the gradient of ", one->name);
        for (detail::operation* const one : operations_) wait(*one, "the messages of a step");
        forget_step();
        update();
    }
    wake();
}

GRADSTEP_DEFINE void lockstep::finish_incremental() {
    is_finishing_ = true;
    gradstep::detail::rollback_guard caller_computes([&] { is_finishing_ = false; });
    detail::idle_time idle;
    detail::deadline until(ranks().timeout()); // restarts after each arrival
    std::vector<gradstep::detail::incremental_step::remainder> rest;
    std::vector<detail::distributed_parameter*> with_rest;
    rest.reserve(parameters_.size()); // push_back must not throw between two take_rest
    with_rest.reserve(parameters_.size());
    for (;; rest.clear(), with_rest.clear()) {
        detail::distributed_parameter* missing = nullptr;
        for (auto const& one : parameters_) {
            if (!one->has_gradient()) {
                if (missing == nullptr) missing = one.get();
            } else if (auto const left = one->take_rest()) {
                rest.push_back(*left);
                with_rest.push_back(one.get());
            }
        }
        if (!rest.empty()) {
            auto const failure = gradstep::detail::exception_of([&] { incremental_->run_rest(rest); });
            for (auto* const one : with_rest) one->stepped(failure);
            idle.begin_anew();
            until = detail::deadline(ranks().timeout());
        } else if (missing == nullptr) {
            break;
        } else {
            if (until.has_passed())
                detail::refuse_wait(ranks().rank(), "the gradient of " + missing->name, ranks().timeout(),
                                    missing->missing());
            idle.pass();
        }
    }
    forget_step();
    incremental_->end();
}

GRADSTEP_DEFINE void lockstep::forget_step() {
    for (auto const& one : parameters_) one->is_pushed = false;
    taken_ = 0;
}
} // namespace gradstep::distributed::inline GRADSTEP_ABI

namespace gradstep::distributed::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void add_options(agreement& own, model_options const& options) {
    own.add("model_options.clip_norm", text(options.clip_norm));
    own.add("model_options.on_nonfinite", gradstep::detail::enumerator(options.on_nonfinite));
}
} // namespace gradstep::distributed::detail::inline GRADSTEP_ABI
