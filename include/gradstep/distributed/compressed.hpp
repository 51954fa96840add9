#pragma once
#include <gradstep/compression/compressed_model.hpp>
#include <gradstep/compression/model_message.hpp>
#include <gradstep/distributed/collectives.hpp>
#include <gradstep/distributed/communicator.hpp>
#include <gradstep/distributed/detail/distributed_parameter.hpp>
#include <gradstep/distributed/lockstep.hpp>
#include <gradstep/model.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep::distributed::detail::inline GRADSTEP_ISA {
// A parameter whose gradient is kept until a message is made of it. S is its type in memory.
template <class S> class kept_parameter final : public distributed_parameter {
public:
    kept_parameter(std::string of, tensor_options const& own, dense_parameter const& owned)
        : distributed_parameter(std::move(of), owned.size(), own, owned), gradient_(owned.size()) {}

    void take(void const* gradient) override {
        if (!gradient_.empty()) std::memcpy(gradient_.data(), gradient, gradient_.size() * sizeof(S));
    }
    bool advance() override { return true; }
    std::vector<int> waits_for() const override { return {}; }
    named_gradient gradient() const override { return {name, gradient_}; }

private:
    std::vector<S> gradient_;
};

// The messages of all ranks.
template <communicator C> class gathered_messages final : public operation {
public:
    gathered_messages(C& by, int channel) : by_(by), channel_(channel) {}
    void send(std::vector<std::byte> message) {
        begin([&] { gather_.emplace(by_, channel_, std::move(message)); });
    }
    bool advance() override { return gather_->test(); }
    std::vector<int> waits_for() const override { return gather_->missing(); }
    std::vector<std::vector<std::byte>> take() { return gather_->take(); }

private:
    C& by_;
    int channel_;
    std::optional<pending_gather<C>> gather_;
};
} // namespace gradstep::distributed::detail::inline GRADSTEP_ISA

namespace gradstep::distributed::inline GRADSTEP_ISA {
/// Data-parallel training with compressed gradients: each rank sends one message per step to every
/// other rank. For a parameter of `dgc_momentum`, the message contains the entries that the rule
/// selects. For a parameter of another rule, it contains the whole gradient. Every step uses the
/// mean of the messages of all ranks, added in the order of the ranks. All ranks have the same
/// values, bit for bit. One process gets the same bits with all messages
/// (compressed_model::compress, compressed_model::apply). You use it like `synchronous`.
///
/// The push of the last gradient of a step makes the message, and throws the errors of
/// compressed_model::compress. The worker sends nothing before. Each rank has its own state of
/// dgc_momentum, so every rank must save and load its own checkpoint.
template <communicator C> class compressed final : public detail::lockstep_over<C> {
    using base = detail::lockstep_over<C>;

public:
    /// Updates on the caller's thread. Throws value_error if an option is out of range. The norm
    /// and the check for NaN and infinity apply to each rank's own gradients (model_options).
    explicit compressed(C& by, model_options const& options = {})
        : base(by, "compressed"), options_(options), model_(options), messages_(by, base::second_channel) {
        this->add_operation(messages_);
    }
    /// Updates on the threads of an executor, which must outlive the worker.
    template <class Executor>
    requires(executor<Executor>) compressed(C& by, Executor& threads, model_options const& options = {})
        : base(by, "compressed"), options_(options), model_(threads, options), messages_(by, base::second_channel) {
        this->add_operation(messages_);
    }
    ~compressed() { this->rest(); }

    /// Adds a `parameter` or an `any_parameter` of float, double, bfloat16 or float16, as
    /// model::add does. Throws the errors of model::add, value_error if num_trainers of
    /// dgc_momentum is not the number of ranks, and sequence_error after the ranks have begun.
    template <class Parameter>
    requires(requires(Parameter x) { Parameter::owned(std::move(x)); }) void add(std::string name, Parameter owned,
                                                                                 tensor_options options = {}) {
        using optimizer = std::remove_cvref_t<decltype(owned.optimizer())>;
        this->refuse_late_add(name);
        detail::with_type_of_values(owned, [&]<class S>() {
            if constexpr (requires { typename optimizer::traits; }) {
                static_assert(gradstep::detail::is_sent<S>,
                              "gradstep: compressed: the parameter is of another type; expected float, double, "
                              "bfloat16 or float16; use synchronous");
                check_trainers(name, owned.optimizer().rule());
            } else if (auto const* const rule = std::get_if<dgc_momentum>(&owned.optimizer().policies().rule)) {
                check_trainers(name, *rule);
            }
            if constexpr (gradstep::detail::is_sent<S>) {
                model_.add(name, std::move(owned), options);
                this->add_pushed([&](int) {
                    auto const& added = this->in_model(name);
                    return std::make_unique<detail::kept_parameter<S>>(std::move(name), options, added);
                });
            } else {
                detail::fail<value_error>({"add: ", name}, {"integers are not sent"},
                                          {"float, double, bfloat16 or float16; use synchronous"});
            }
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

    /// The length in bytes of the last message that this rank sent to each other rank.
    std::size_t message_bytes() const { return message_bytes_; }
    /// The parameters, for saving and for averages. Load them on all ranks before the first step.
    compressed_model& model() { return model_; }
    compressed_model const& model() const { return model_; }

private:
    template <class Rule> void check_trainers(std::string const& name, [[maybe_unused]] Rule const& rule) {
        if constexpr (gradstep::detail::sends_messages<Rule>)
            if (rule.num_trainers != this->by().size())
                detail::fail<value_error>({"add: ", name, ": dgc_momentum.num_trainers"},
                                          {rule.num_trainers, " is out of range"},
                                          {this->by().size(), ", the number of ranks"});
    }
    void all_taken() override {
        std::vector<named_gradient> gradients;
        for (auto const& one : this->parameters()) gradients.push_back(one->gradient());
        auto message = model_.compress(gradients).encode();
        message_bytes_ = message.size();
        messages_.send(std::move(message));
    }
    void update() override {
        std::vector<model_message> of_ranks;
        for (auto const& bytes : messages_.take())
            gradstep::detail::with_context([&] { return "rank " + detail::text(of_ranks.size()) + ": "; },
                                           [&] { of_ranks.push_back(model_message::decode(bytes)); });
        model_.apply(of_ranks);
    }
    void describe_to(detail::agreement& own) const override { detail::add_options(own, options_); }
    gradstep::model const& updated_model() const override { return model_.as_model(); }

    model_options options_;
    compressed_model model_;
    detail::gathered_messages<C> messages_;
    std::size_t message_bytes_ = 0;
};
} // namespace gradstep::distributed::inline GRADSTEP_ISA
