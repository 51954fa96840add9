#pragma once
#include <gradstep/backends/simd.hpp>
#include <gradstep/compression/detail/compress.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/runtime/detail/sent_type.hpp>
#include <gradstep/step/detail/step_checks.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// An any_parameter of a compressed_model. A rule that does not compress sends its gradient, and
// steps with the mean of all gradients, rounded to the storage.
class any_message_task final : public parameter_task, public message_task {
public:
    using parameter_task::parameter_task;

    void withdraw() override {
        parameter_task::withdraw();
        end_two_phase();
    }

    void begin_message(step_options const& given, double clip, bool has_gradient) override {
        step_options own = parameter().scaled(given, clip);
        named([&] {
            any_parameter& own_parameter = memory();
            if (own_parameter.compresses()) return own_parameter.begin_message(own, options(), has_gradient);
            with_sent_type(storage(), [&]<class S>() {
                as_compute<decltype(widen(S()))>("step_options.gradient_scale", own.gradient_scale);
            });
            scale_ = std::exchange(own.gradient_scale, 1);
            zeroes_ = std::exchange(own.zero_gradient, false);
            fills_ = has_gradient;
            own_parameter.advance(own, options());
            rollback_guard clock_back([&] { withdraw(); });
            message_ = message_writer::without_gradient(storage(), size(), clock().step, true);
            clock_back.dismiss();
        });
    }
    sparse_message message() override {
        any_parameter& own_parameter = memory();
        if (own_parameter.compresses()) return own_parameter.message();
        if (fills_) detail::fill_dense_message(message_, own_parameter.gradient(), scale_, zeroes_);
        return std::move(message_);
    }
    void begin_apply(message_list const& messages) override {
        parameter().follow();
        named([&] {
            any_parameter& own_parameter = memory();
            if (own_parameter.compresses()) return own_parameter.begin_apply(messages);
            scalar const type = storage();
            auto const trainers = static_cast<std::int64_t>(messages.size());
            detail::check_messages(messages, size(), clock().step, info_of(type).element, true, trainers);
            with_sent_type(type, [&]<class S>() {
                auto const mean = mean_of<S, decltype(widen(S()))>(simd_backend<>{}, messages, size());
                mean_ = memory_block(parameter().code().memory(), mean.size() * sizeof(S));
                if (!mean.empty()) std::memcpy(mean_.data(), mean.data(), mean_.bytes());
            });
            own_parameter.take_gradient({type, mean_.data(), size()}, {}, "apply");
        });
    }
    void end_two_phase() override {
        memory().end_two_phase();
        message_ = {};
        mean_ = {};
    }

private:
    any_parameter& memory() const { return any_parameter::of(parameter()); }
    scalar storage() const { return parameter().facts().storage; }

    // Between the halves of a step of a rule that does not compress.
    double scale_ = 1;
    bool zeroes_ = false, fills_ = false;
    sparse_message message_;
    memory_block mean_;
};

GRADSTEP_DEFINE_RUNTIME made_message_task make_message_task(std::string name, std::unique_ptr<dense_parameter> of,
                                                            tensor_options options) {
    return made_message_task(std::make_unique<any_message_task>(std::move(name), std::move(of), options));
}
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
