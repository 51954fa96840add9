#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void message_task::begin_message(step_options const& given, double clip, bool has_gradient) {
    named([&] {
        step_options own = parameter().scaled(given, clip);
        if (parameter().compression() != nullptr) return step_.begin_message(own, options(), has_gradient);
        updater_facts const& facts = parameter().facts();
        if (dense_ == nullptr)
            fail<value_error>({"compress"}, {"the parameter is of ", facts.element},
                              {"float, double, bfloat16 or float16"});
        scale_ = std::exchange(own.gradient_scale, 1);
        if (facts.storage == scalar::float64) as_compute<double>("step_options.gradient_scale", scale_);
        else as_compute<float>("step_options.gradient_scale", scale_);
        zeroes_ = std::exchange(own.zero_gradient, false);
        fills_ = has_gradient;
        parameter().advance(own, options());
        rollback_guard clock_back([&] { withdraw(); });
        message_ = message_writer::without_gradient(facts.storage, size(), clock().step, true);
        clock_back.dismiss();
    });
}

GRADSTEP_DEFINE sparse_message message_task::message() {
    if (parameter().compression() != nullptr) return step_.message();
    if (fills_) dense_->fill(parameter(), message_, scale_, zeroes_);
    return std::move(message_);
}

GRADSTEP_DEFINE void message_task::begin_apply(message_list const& messages) {
    named([&] {
        parameter().follow();
        if (parameter().compression() != nullptr) return step_.begin_apply(messages);
        check_messages(messages, size(), clock().step, info_of(parameter().facts().storage).element, true,
                       static_cast<std::int64_t>(messages.size()));
        dense_->mean(parameter(), messages, mean_);
        parameter().take_gradient({mean_.data(), size(), true}, {}, "apply");
        parameter().require_step();
    });
}

GRADSTEP_DEFINE void message_task::end_two_phase() {
    step_.end();
    message_ = {};
}

GRADSTEP_DEFINE void message_task::withdraw() {
    parameter_task::withdraw();
    end_two_phase();
}

GRADSTEP_DEFINE void message_task::run_whole(launch_batch& waiting) {
    if (step_.applies()) step_.run();
    else parameter_task::run_whole(waiting);
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
