#pragma once
#include <gradstep/backends/simd.hpp>
#include <gradstep/compression/detail/compress.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/runtime/detail/sent_type.hpp>
#include <gradstep/runtime/parameter_task.hpp>
#include <gradstep/step/detail/step_checks.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// A parameter of a compressed_model with policies chosen at run time: any_owning_task or
// any_borrowing_task with messages. A rule that does not compress sends its gradient, and steps
// with the mean of all gradients, rounded to the storage.
template <class Task> class any_message_task final : public Task, public message_task {
public:
    using Task::Task;

    void withdraw() override {
        Task::withdraw();
        end_two_phase();
    }

    void begin_message(step_options const& options, double clip, bool has_gradient) override {
        step_options own = this->clipped(options, clip);
        this->named([&] {
            any_parameter& parameter = this->memory();
            if (parameter.compresses()) return parameter.begin_message(own, this->options(), has_gradient);
            with_sent_type(this->storage(), [&]<class S>() {
                as_compute<decltype(widen(S()))>("step_options.gradient_scale", own.gradient_scale);
            });
            scale_ = std::exchange(own.gradient_scale, 1);
            zeroes_ = std::exchange(own.zero_gradient, false);
            fills_ = has_gradient;
            parameter.advance(own, this->options());
            rollback_guard clock_back([&] { withdraw(); });
            message_ = message_without_gradient(this->storage(), this->size(), this->clock().step, true);
            clock_back.dismiss();
        });
    }
    sparse_message message() override {
        any_parameter& parameter = this->memory();
        if (parameter.compresses()) return parameter.message();
        if (fills_) detail::fill_dense_message(message_, parameter.gradient(), scale_, zeroes_);
        return std::move(message_);
    }
    void begin_apply(message_list const& messages) override {
        this->follow();
        this->named([&] {
            any_parameter& parameter = this->memory();
            if (parameter.compresses()) return parameter.begin_apply(messages);
            scalar const type = this->storage();
            auto const trainers = static_cast<std::int64_t>(messages.size());
            detail::check_messages(messages, this->size(), this->clock().step, type, true, trainers);
            with_sent_type(type, [&]<class S>() {
                auto const mean = mean_of<S, decltype(widen(S()))>(simd_backend<>{}, messages, this->size());
                mean_ = memory_block(parameter.core().code().memory(), mean.size() * sizeof(S));
                if (!mean.empty()) std::memcpy(mean_.data(), mean.data(), mean_.bytes());
            });
            parameter.take_gradient({type, mean_.data(), this->size()}, {}, "apply");
        });
    }
    void end_two_phase() override {
        this->memory().end_two_phase();
        message_ = {};
        mean_ = {};
    }

private:
    // Between the halves of a step of a rule that does not compress.
    double scale_ = 1;
    bool zeroes_ = false, fills_ = false;
    sparse_message message_;
    memory_block mean_;
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI

namespace gradstep::inline GRADSTEP_RUNTIME_ABI {
GRADSTEP_DEFINE_RUNTIME detail::made_message_task make_message_task(std::string name, any_parameter owned,
                                                                    tensor_options options) {
    using task_type = detail::any_message_task<detail::any_owning_task>;
    return detail::made_message_task(std::make_unique<task_type>(std::move(name), std::move(owned), options));
}

GRADSTEP_DEFINE_RUNTIME detail::made_message_task make_message_task(std::string name, any_updater const& optimizer,
                                                                    any_tensor const& tensor, tensor_options options) {
    using task_type = detail::any_message_task<detail::any_borrowing_task>;
    return detail::made_message_task(std::make_unique<task_type>(name, optimizer, tensor, options));
}
} // namespace gradstep::inline GRADSTEP_RUNTIME_ABI
