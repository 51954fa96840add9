#pragma once
#include <gradstep/compression/detail/message_task.hpp>
#include <gradstep/compression/model_message.hpp>
#include <gradstep/model.hpp>
#include <gradstep/model/detail/borrowed_parameter.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/step/slice.hpp>
#include <gradstep/step/step_options.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// A model for several trainers, which send each other one message per step. `compress` makes the
/// message of this trainer, and `apply` takes the step with the messages of all trainers. A
/// parameter of `dgc_momentum` sends a compressed gradient. A parameter of another rule sends its
/// whole gradient.
///
///     gs::compressed_model net{pool};
///     net.add("weight", gs::parameter{dgc, weight});
///     net.add("bias", gs::parameter{adam, bias});
///     gs::model_message const mine = net.compress({{"weight", g_weight}, {"bias", g_bias}});
///     net.apply(exchange_all(mine));  // in the order of the ranks
///
/// It has the constructors and functions of `model`, and uses the same files. It is not a `model`:
/// pass `as_model()` to a function that reads a model. Between `compress` and `apply`, `update`,
/// averages, `save` and `load` throw sequence_error. `get` returns the parameter in its current
/// state: do not update it between the two calls. You can move a compressed_model between the two
/// calls.
class compressed_model : private model { // private: a model& could add or replace parameters
public:
    using model::average_is_applied, model::save, model::load, model::description;
    using model::model;
    using model::set_shape, model::set_shard, model::average, model::apply_average, model::restore;
    using model::update, model::size, model::names, model::contains, model::get, model::clock, model::seek;
    /// Returns the parameters, for functions that read a model.
    model const& as_model() const { return *this; }

    /// Adds a parameter, as `model::add` does.
    template <class Updater> void add(std::string name, parameter<Updater> owned, tensor_options options = {}) {
        tasks().check_new(name, options);
        push_back(std::move(name), parameter<Updater>::owned(std::move(owned)), options,
                  detail::dense_messages_of<Updater>());
    }
    /// The same for a parameter with an optimizer chosen at run time, `any_parameter`
    /// (gradstep/runtime.hpp).
    template <class Parameter>
    requires(requires(Parameter x) { Parameter::owned(std::move(x)); }) void add(std::string name, Parameter owned,
                                                                                 tensor_options options = {}) {
        tasks().check_new(name, options);
        auto made = Parameter::owned(std::move(owned));
        auto const* const dense = any_messages(*made); // found by its argument, as in the last `add`
        push_back(std::move(name), std::move(made), options, dense);
    }
    /// Adds a parameter in your memory, as `model::add` does.
    template <class Element, class Rule, class Regularizer, class Schedule, class Backend>
    void add(std::string name, updater<Element, Rule, Regularizer, Schedule, Backend> const& optimizer,
             slice<updater<Element, Rule, Regularizer, Schedule, Backend>> tensor, tensor_options options = {}) {
        options = tasks().check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "slice.step");
        using type = updater<Element, Rule, Regularizer, Schedule, Backend>;
        std::unique_ptr<detail::dense_parameter> made;
        detail::with_context([&] { return name + ": "; },
                             [&] { made = std::make_unique<detail::borrowed_parameter<type>>(optimizer, tensor); });
        push_back(std::move(name), std::move(made), options, detail::dense_messages_of<type>());
    }
    /// The same with an optimizer chosen at run time, `any_updater`.
    template <class Updater>
    requires(requires { typename Updater::tensor_type; }) void add(std::string name, Updater const& optimizer,
                                                                   typename Updater::tensor_type const& tensor,
                                                                   tensor_options options = {}) {
        options = tasks().check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "step");
        decltype(lent_parameter(name, optimizer, tensor)) made; // found by its arguments
        detail::with_context([&] { return name + ": "; }, [&] { made = lent_parameter(name, optimizer, tensor); });
        auto const* const dense = any_messages(*made);
        push_back(std::move(name), std::move(made), options, dense);
    }

    /// The first half of a step: returns the message of this trainer. clip_norm limits the norm of
    /// this trainer's gradients. The clocks move, and the parameters wait for `apply`. If a
    /// gradient is not finite and on_nonfinite is `skip`, the message has no gradients.
    ///
    /// Throws the errors of `update`, and sequence_error if the messages of the previous step have
    /// not been applied, or averages have replaced the weights. Nothing has changed then. If an
    /// executor or a device fails, a parameter's state can already contain the gradient. The clocks
    /// then count the step, which has no message, and `apply` throws sequence_error.
    model_message compress(std::span<named_gradient const> gradients, step_options const& options = {});
    model_message compress(std::initializer_list<named_gradient> gradients, step_options const& options = {});
    /// The same if every parameter was added with its gradient.
    model_message compress(step_options const& options = {}) {
        return compress(std::span<named_gradient const>(), options);
    }
    /// The second half of a step: updates every parameter with the mean of the messages of all
    /// trainers, in the order of their ranks. The mean of whole gradients is rounded to the type of
    /// the parameter. Trainers that apply the same messages have the same bits.
    ///
    /// Throws value_error for messages of another model, step or number of trainers. Throws
    /// sequence_error if `compress` has not been called, or averages have replaced the weights.
    /// Nothing has changed then. If an executor or a device fails, some weights can have moved. A
    /// second `apply` then throws sequence_error, because it would move them twice.
    void apply(std::span<model_message const> messages);
    /// Whether `compress` has been called, and `apply` has not.
    bool awaits_messages() const { return awaits_messages_; }

private:
    void push_back(std::string name, std::unique_ptr<detail::dense_parameter> owned, tensor_options const& options,
                   detail::dense_messages const* dense);
    void end_two_phase() {
        for (detail::message_task* const one : messages_) one->end_two_phase();
    }

    std::vector<detail::message_task*> messages_; // the tasks of the model, in their order
    bool awaits_messages_ = false;
};
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/compressed_model.ipp>
#endif
