#pragma once
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gradstep/compression/message_task.hpp>
#include <gradstep/compression/model_message.hpp>
#include <gradstep/compression/updater_message_task.hpp>
#include <gradstep/core/parameter_options.hpp>
#include <gradstep/core/step_options.hpp>
#include <gradstep/model.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/parameter.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// A `model` whose trainers send each other one message a step: `compress` makes the message of this
/// trainer, and `apply` takes the step with the messages of all trainers. Parameters of
/// `dgc_momentum` send what their step compresses. Parameters of other rules send their gradient as
/// it is.
///
///     gs::compressed_model net{pool};
///     net.add("weight", gs::parameter{dgc, weight});
///     net.add("bias", gs::parameter{adam, bias});
///     gs::model_message const mine = net.compress({{"weight", g_weight}, {"bias", g_bias}});
///     net.apply(exchange_all(mine));  // in the order of the ranks
///
/// Add all parameters by the functions of this class, not through a reference to `model`. Between
/// `compress` and `apply`, `update`, averages, `save` and `load` throw sequence_error. `get` returns
/// the parameter as it is in this moment: do not update it between the two.
class compressed_model : public model {
public:
    using model::model;

    /// Adds a parameter, as `model::add`.
    template <class Updater> void add(std::string name, parameter<Updater> owned, member_options options = {}) {
        tasks().check_new(name, options);
        using task_type = detail::message_task_of<detail::owning_task<Updater>>;
        push_back(detail::made_message_task(std::make_unique<task_type>(std::move(name), std::move(owned), options)));
    }
    /// The same for a parameter with an optimizer chosen at run time, `any_parameter`
    /// (gradstep/runtime.hpp).
    template <class Parameter>
    requires(requires { typename Parameter::task_type; }) void add(std::string name, Parameter owned,
                                                                   member_options options = {}) {
        tasks().check_new(name, options);
        push_back(make_message_task(std::move(name), std::move(owned), options));
    }
    /// Adds memory of the host's, as `model::add`.
    template <class Element, class Rule, class Regularizer, class Schedule, class Backend>
    void add(std::string name, updater<Element, Rule, Regularizer, Schedule, Backend> const& optimizer,
             slice<updater<Element, Rule, Regularizer, Schedule, Backend>> tensor, member_options options = {}) {
        options = tasks().check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "slice.step");
        using type = updater<Element, Rule, Regularizer, Schedule, Backend>;
        using task_type = detail::message_task_of<detail::borrowing_task<type>>;
        push_back(detail::made_message_task(std::make_unique<task_type>(std::move(name), optimizer, tensor, options)));
    }
    /// The same with an optimizer chosen at run time, `any_updater`.
    template <class Updater>
    requires(requires { typename Updater::tensor_type; }) void add(std::string name, Updater const& optimizer,
                                                                   typename Updater::tensor_type const& tensor,
                                                                   member_options options = {}) {
        options = tasks().check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "step");
        push_back(make_message_task(std::move(name), optimizer, tensor, options));
    }

    /// The first half of a step: the message of this trainer. clip_norm is of the gradients of this
    /// trainer. The clocks move, and the parameters wait for `apply`. Throws as `update`, with
    /// everything as it was, and sequence_error if the messages of the step before have not been
    /// applied, or an average is in the place of the weights. If a gradient is not finite and
    /// on_nonfinite is `skip`, the message has no gradients. If an executor or a device fails, a
    /// parameter's state may already contain the gradient: the clocks then count the step, which has
    /// no message, and nothing waits for `apply`.
    model_message compress(std::span<named_gradient const> gradients, step_options const& options = {});
    model_message compress(std::initializer_list<named_gradient> gradients, step_options const& options = {});
    /// The same if every parameter was added with its gradient.
    model_message compress(step_options const& options = {}) {
        return compress(std::span<named_gradient const>(), options);
    }
    /// The second half: every parameter takes its step with the mean of what all trainers have sent,
    /// in the order of their ranks. The mean of gradients that are sent as they are is rounded to the
    /// type of the parameter. Trainers that apply the same messages hold the same bits. Throws
    /// value_error, with everything as it was, for messages of other models, steps or numbers of
    /// trainers. Throws sequence_error if `compress` has not been called, or an average is in the
    /// place of the weights. If an executor or a device fails, a part of the weights may have moved:
    /// nothing waits for `apply` then, because it would move them twice.
    void apply(std::span<model_message const> messages);
    /// Whether `compress` has been called, and `apply` has not.
    bool awaits_messages() const { return awaits_messages_; }

private:
    void push_back(detail::made_message_task made);
    void end_halves() {
        for (detail::message_task* const one : messages_) one->end_halves();
    }

    std::vector<detail::message_task*> messages_; // the tasks of the model, by their other interface
    bool awaits_messages_ = false;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/compressed_model.ipp>
#endif
