#pragma once
#include <gradstep/compression/detail/compress.hpp>
#include <gradstep/compression/detail/merge.hpp>
#include <gradstep/compression/detail/message_task.hpp>
#include <gradstep/model/detail/memory_tasks.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// An updater with a step that makes messages: dgc_momentum has one.
template <class Updater> concept compresses = requires { typename Updater::step_type::pending_message; };

// The tasks of an updater (owning_task, borrowing_task) in a compressed_model. For a rule that
// compresses: its step makes the message and applies it.
template <class Task> class compressing_task final : public Task, public message_task {
    using step_type = typename Task::updater_type::step_type;
    struct halves {
        step_type step;
        std::optional<typename step_type::pending_message> first{};
        std::optional<typename step_type::pending_apply> second{};

        explicit halves(step_type const& of) : step(of) {}
    };

public:
    using Task::Task;

    void withdraw() override {
        Task::withdraw();
        end_two_phase();
    }
    bool runs_in_chunks() const override { return two_phase_ == nullptr && Task::runs_in_chunks(); }
    void run_whole(launch_batch& waiting) override {
        if (two_phase_ != nullptr) two_phase_->second->run();
        else Task::run_whole(waiting);
    }

    void begin_message(step_options const& options, double clip, bool has_gradient) override {
        this->next_step(options, clip, [&](step_options const& own) {
            two_phase_ = std::make_unique<halves>(this->optimizer().next_step(own, this->options()));
            if (has_gradient) two_phase_->first.emplace(two_phase_->step, this->prepared_tensor());
            else message_ = two_phase_->step.empty_message(this->size());
        });
    }
    sparse_message message() override {
        if (two_phase_->first) return two_phase_->first->run();
        return std::move(message_);
    }
    void begin_apply(message_list const& messages) override {
        this->follow();
        this->named([&] {
            this->set_gradient({}, true, {});
            slice<typename Task::updater_type> const x = this->prepared_tensor();
            two_phase_->second.reset();
            two_phase_->second.emplace(two_phase_->step, x, messages);
        });
    }
    void end_two_phase() override {
        two_phase_.reset();
        message_ = {};
    }

private:
    std::unique_ptr<halves> two_phase_;
    sparse_message message_; // without a gradient
};

// For any other rule: it sends the whole gradient, and steps with the mean of all gradients,
// rounded to the storage.
template <class Task> class dense_message_task final : public Task, public message_task {
    using updater = typename Task::updater_type;
    using backend = typename updater::backend_type;
    using storage = typename updater::traits::storage;
    using compute = typename updater::traits::compute;

public:
    using Task::Task;

    void withdraw() override {
        Task::withdraw();
        end_two_phase();
    }

    void begin_message(step_options const& options, double clip, bool has_gradient) override {
        this->next_step(options, clip, [&](step_options own) {
            if constexpr (is_sent<storage>) {
                scale_ = as_compute<compute>("step_options.gradient_scale", own.gradient_scale);
                fills_ = has_gradient;
                zeroes_ = own.zero_gradient;
                own.gradient_scale = 1;
                own.zero_gradient = false;
                step_.emplace(this->optimizer().next_step(own, this->options()));
                message_ = message_writer::without_gradient<storage>(this->size(), step_->number(), true);
            } else {
                fail<value_error>({"compress"},
                                  {"the parameter is of ", element_traits<typename updater::element_type>::name},
                                  {"float, double, bfloat16 or float16"});
            }
        });
    }
    sparse_message message() override {
        if constexpr (is_sent<storage>)
            if (fills_) fill_dense_message(this->optimizer().backend(), message_, this->gradient(), scale_, zeroes_);
        return std::move(message_);
    }
    void begin_apply([[maybe_unused]] message_list const& messages) override {
        this->follow();
        if constexpr (is_sent<storage>)
            this->named([&] {
                auto const& by = this->optimizer().backend();
                auto const trainers = static_cast<std::int64_t>(messages.size());
                check_messages(messages, this->size(), step_->number(), name_of_element<storage>(), true, trainers);
                auto const mean = mean_of<storage, compute>(by, messages, this->size());
                mean_ = by.copy_of(std::span<storage const>(mean), host_memory{});
                this->set_gradient({backend::data(mean_), this->size()}, true, {});
                this->make_call(*step_);
            });
    }
    void end_two_phase() override {
        step_.reset();
        message_ = {};
    }

private:
    std::optional<typename updater::step_type> step_; // between the halves, like the following members
    compute scale_ = 1;
    bool fills_ = false, zeroes_ = false;
    sparse_message message_;
    typename backend::template buffer<storage> mean_;
};

template <class Task>
using message_task_of =
    std::conditional_t<compresses<typename Task::updater_type>, compressing_task<Task>, dense_message_task<Task>>;
} // namespace gradstep::detail::inline GRADSTEP_ISA
