#pragma once
#include <gradstep/compression/detail/compress.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/compression/detail/message_task.hpp>
#include <gradstep/engine/detail/kernels_of.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// An updater with a step that makes messages: dgc_momentum has one.
template <class Updater> concept compresses = requires { typename Updater::step_type::pending_message; };

// A parameter of a compressed_model with a rule that compresses: its step makes the message and
// applies it.
template <class Updater> class compressing_task final : public parameter_task, public message_task {
    using step_type = typename Updater::step_type;
    struct halves {
        step_type step;
        std::optional<typename step_type::pending_message> first{};
        std::optional<typename step_type::pending_apply> second{};

        explicit halves(step_type const& of) : step(of) {}
    };

public:
    using parameter_task::parameter_task;

    void withdraw() override {
        parameter_task::withdraw();
        end_two_phase();
    }
    bool runs_in_chunks() const override { return two_phase_ == nullptr && parameter_task::runs_in_chunks(); }
    void run_whole(launch_batch& waiting) override {
        if (two_phase_ != nullptr) two_phase_->second->run();
        else parameter_task::run_whole(waiting);
    }

    void begin_message(step_options const& given, double clip, bool has_gradient) override {
        named([&] {
            parameter().next_step(parameter().scaled(given, clip), options());
            rollback_guard clock_back([&] { withdraw(); });
            two_phase_ = std::make_unique<halves>(stepper().held());
            if (has_gradient) two_phase_->first.emplace(two_phase_->step, tensor());
            else message_ = two_phase_->step.empty_message(size());
            clock_back.dismiss();
        });
    }
    sparse_message message() override {
        if (two_phase_->first) return two_phase_->first->run();
        return std::move(message_);
    }
    void begin_apply(message_list const& messages) override {
        named([&] {
            parameter().follow();
            parameter().require_trained("apply");
            slice<Updater> x = tensor();
            x.gradient = std::span<typename Updater::traits::storage const>();
            two_phase_->second.reset();
            two_phase_->second.emplace(two_phase_->step, x, messages);
        });
    }
    void end_two_phase() override {
        two_phase_.reset();
        message_ = {};
    }

private:
    typed_stepper<Updater>& stepper() const { return static_cast<typed_stepper<Updater>&>(parameter().by()); }
    slice<Updater> tensor() const { return stepper().slice_in_step(parameter().step_tensor()); }

    std::unique_ptr<halves> two_phase_;
    sparse_message message_; // without a gradient
};

// For any other rule: it sends the whole gradient, and steps with the mean of all gradients,
// rounded to the storage.
template <class Updater> class dense_message_task final : public parameter_task, public message_task {
    using backend = typename Updater::backend_type;
    using storage = typename Updater::traits::storage;
    using compute = typename Updater::traits::compute;

public:
    using parameter_task::parameter_task;

    void withdraw() override {
        parameter_task::withdraw();
        end_two_phase();
    }

    void begin_message(step_options const& given, double clip, bool has_gradient) override {
        named([&] {
            if constexpr (is_sent<storage>) {
                step_options own = parameter().scaled(given, clip);
                scale_ = as_compute<compute>("step_options.gradient_scale", own.gradient_scale);
                fills_ = has_gradient;
                zeroes_ = own.zero_gradient;
                own.gradient_scale = 1;
                own.zero_gradient = false;
                parameter().next_step(own, options());
                rollback_guard clock_back([&] { withdraw(); });
                message_ = message_writer::without_gradient(sent_type<storage>(), size(), clock().step, true);
                clock_back.dismiss();
            } else {
                fail<value_error>({"compress"}, {"the parameter is of ", parameter().facts().element},
                                  {"float, double, bfloat16 or float16"});
            }
        });
    }
    sparse_message message() override {
        if constexpr (is_sent<storage>)
            if (fills_) {
                given_gradient const& g = parameter().gradient();
                fill_dense_message(own_backend(), message_, std::span(static_cast<storage const*>(g.data), g.size),
                                   scale_, zeroes_);
            }
        return std::move(message_);
    }
    void begin_apply([[maybe_unused]] message_list const& messages) override {
        if constexpr (is_sent<storage>)
            named([&] {
                parameter().follow();
                auto const& by = own_backend();
                auto const trainers = static_cast<std::int64_t>(messages.size());
                check_messages(messages, size(), clock().step, name_of_element<storage>(), true, trainers);
                auto const mean = mean_of<storage, compute>(by, messages, size());
                mean_ = by.copy_of(std::span<storage const>(mean), host_memory{});
                parameter().take_gradient({backend::data(mean_), size(), true}, {}, "apply");
                parameter().require_step();
            });
    }
    void end_two_phase() override { message_ = {}; }

private:
    backend const& own_backend() const {
        return static_cast<typed_stepper<Updater> const&>(std::as_const(parameter()).by()).updater().backend();
    }

    compute scale_ = 1; // between the halves, like the following members
    bool fills_ = false, zeroes_ = false;
    sparse_message message_;
    typename backend::template buffer<storage> mean_;
};

template <class Updater>
using message_task_of = std::conditional_t<compresses<Updater>, compressing_task<Updater>, dense_message_task<Updater>>;
} // namespace gradstep::detail::inline GRADSTEP_ISA
