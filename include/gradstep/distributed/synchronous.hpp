#pragma once
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/detail/distributed_parameter.hpp>
#include <gradstep/distributed/detail/incremental_step.hpp>
#include <gradstep/distributed/lockstep.hpp>
#include <gradstep/model.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ISA {
// A parameter whose gradients are summed over all ranks. S is its type in memory.
template <class S, communicator C> class reduced_parameter final : public distributed_parameter {
public:
    reduced_parameter(C& by, int channel, std::string of, tensor_options const& own, dense_parameter const& owned)
        : distributed_parameter(std::move(of), owned.size(), own, owned), by_(by), channel_(channel),
          mean_(std::make_shared<std::vector<S>>(owned.size())) {}

    void take(void const* gradient) override {
        if (!mean_->empty()) std::memcpy(mean_->data(), gradient, mean_->size() * sizeof(S));
        reduce_.emplace(by_, channel_, std::span(*mean_), mean_of<S>, mean_);
    }
    bool advance() override { return reduce_->test(); }
    std::vector<int> waits_for() const override { return reduce_->missing(); }
    named_gradient gradient() const override { return {name, *mean_}; }

private:
    C& by_;
    int channel_;
    std::shared_ptr<std::vector<S>> mean_; // shared with the transport, which can read it for longer
    std::optional<pending_all_reduce<S, C>> reduce_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ISA

namespace gradstep::distributed::inline GRADSTEP_ISA {
/// Data-parallel training: a worker that takes every step with the mean of the gradients of all
/// ranks (all-reduce). All ranks make the same update and have the same bits. One process gets the
/// same bits with a gs::model of the same parameters: it adds the gradients in the order of the
/// ranks, and divides by the number of ranks. Each rank makes one worker, with the same parameters
/// in the same order:
///
///     gs::distributed::synchronous worker(by);          // `by` is a communicator, which must outlive it
///     worker.add("w", optimizer, initial);
///     for (...) {
///         worker.push("w", gradient);                   // starts to send, and returns
///         worker.pull("w", w);                          // waits for the others, updates, copies
///     }
///     worker.stop();
///
/// Gradients of integers, which are counts, are summed, not averaged. In addition to the model,
/// each rank stores every gradient once, and almost a second time while it is being exchanged.
template <communicator C> class synchronous final : public detail::lockstep_over<C> {
    using base = detail::lockstep_over<C>;

public:
    /// Updates on the caller's thread. Throws value_error if an option is out of range. The norm
    /// and the check for NaN and infinity apply to the mean gradients (model_options).
    explicit synchronous(C& by, model_options const& options = {})
        : base(by, "synchronous"), options_(options), model_(options) {}
    /// Updates on the threads of an executor, which must outlive the worker.
    template <class Executor>
    requires(executor<Executor>) synchronous(C& by, Executor& threads, model_options const& options = {})
        : base(by, "synchronous"), options_(options), model_(threads, options) {}
    ~synchronous() { this->rest(); }

    /// Adds a `parameter` or an `any_parameter`, as model::add does. Throws the errors of
    /// model::add, and sequence_error after the ranks have begun.
    template <class Parameter>
    requires(requires(Parameter x) { Parameter::owned(std::move(x)); }) void add(std::string name, Parameter owned,
                                                                                 tensor_options options = {}) {
        this->refuse_late_add(name);
        detail::with_type_of_values(owned, [&]<class S>() {
            model_.add(name, std::move(owned), options);
            this->add_pushed([&](int channel) {
                auto const& added = this->in_model(name);
                return std::make_unique<detail::reduced_parameter<S, C>>(this->by(), channel, std::move(name), options,
                                                                         added);
            });
        });
    }
    /// The same for an optimizer and initial values.
    template <class Updater, class Buffer>
    requires requires { typename Updater::traits; }
    void add(std::string name, Updater const& optimizer, Buffer const& initial, tensor_options options = {}) {
        add(std::move(name), parameter<Updater>(optimizer, initial), options);
    }
    /// The same with policies chosen at run time, by an any_updater. `initial` has the type of its
    /// values.
    template <class Updater>
    requires requires { typename Updater::tensor_type; }
    void add(std::string name, Updater const& optimizer, typename Updater::span_type initial,
             tensor_options options = {}) {
        add(std::move(name), typename Updater::parameter_type(optimizer, initial), options);
    }

    /// The result of the last step (model::update). It is the same on all ranks.
    model_result const& last_step() const { return last_; }
    /// The parameters, for saving and for averages. Load them on all ranks before the first step.
    gradstep::model& model() { return model_; }
    gradstep::model const& model() const { return model_; }

private:
    void update() override {
        std::vector<named_gradient> gradients;
        for (auto const& one : this->parameters()) gradients.push_back(one->gradient());
        last_ = model_.update(gradients);
    }
    gradstep::detail::incremental_step* incremental() override { return &step_; }
    void describe_to(detail::agreement& own) const override { detail::add_options(own, options_); }
    gradstep::model const& updated_model() const override { return model_; }

    model_options options_;
    gradstep::model model_;
    gradstep::detail::incremental_step step_{model_.tasks()};
    model_result last_;
};
} // namespace gradstep::distributed::inline GRADSTEP_ISA
