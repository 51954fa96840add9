#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/core/executor.hpp>
#include <gradstep/core/tensor_shard.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/model/model_options.hpp>
#include <gradstep/model/name_index.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/model/task_set.hpp>
#include <gradstep/model/updater_task.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/state/saved_state.hpp>

namespace gradstep {

inline namespace GRADSTEP_ABI {
/// Named parameters, each with an updater of its own, updated together: one pass, split over
/// threads by memory traffic whatever the sizes and the updaters are. A parameter is the model's,
/// or memory of the host's, given as a slice:
///
///     gs::model net{pool, {.clip_norm = 1.0}};
///     net.add("wide.weight", gs::parameter{gs::make_updater<float>(gs::ftrl{.l1 = 1.0}, gs::constant{0.1}), wide});
///     net.add("deep.bias", gs::parameter{optimizer, bias}, {.decay = false});
///     net.update({{"wide.weight", g_wide}, {"deep.bias", g_bias}});
///
///     gs::model of_the_host{pool, {.clip_norm = 1.0}};
///     of_the_host.add("deep.weight", adam, {w, g, m, v});
///     of_the_host.add("deep.bias", momentum, {bias, g_bias, bias_m}, {.decay = false});
///     of_the_host.update(); // with the gradients that are in g and g_bias
///
/// An update takes a gradient for each parameter, checks everything, and then updates all of them:
/// where it throws, all are as they were. Parameters that do not come in pieces are updated on
/// their own backend: those of row-wise rules one after the other, those of Thrust together. Once
/// an update has been done, others allocate nothing, but for what row-wise rules, devices and
/// executors need.
class model {
public:
    /// On the caller's thread. Throws value_error for a clip_norm that is not > 0.
    explicit model(model_options options = {}) : tasks_(options) {}
    /// On the threads of an executor, which must outlive the model.
    template <class Executor>
    requires(executor<Executor>) explicit model(Executor& threads, model_options options = {})
        : tasks_(options, detail::executor_reference(threads)) {}

    template <class Executor>
    requires(executor<Executor> && !std::is_lvalue_reference_v<Executor>) explicit model(Executor&&,
                                                                                         model_options = {}) {
        static_assert(sizeof(Executor) == 0, "gradstep: a model refers to its executor, which must outlive it: give a "
                                             "variable, not a temporary");
    }
    model(model&&) = default;
    model& operator=(model&&) = default;

    /// Adds a parameter, which the model owns from now on. Throws value_error for a name that the
    /// model has or that no file can hold (empty, not UTF-8, with a byte 0, "__metadata__", or
    /// "w/m" beside a "w" with a slot m), for more parameters than a file can name (over 10^6), and
    /// for a bad rate_scale.
    template <class Updater> void add(std::string name, parameter<Updater> owned, member_options options = {}) {
        tasks_.check_new(name, options);
        tasks_.push_back(std::make_unique<detail::owning_task<Updater>>(std::move(name), std::move(owned), options));
    }
    /// The same for a parameter whose optimizer is chosen at run time, `any_parameter`
    /// (gradstep/runtime.hpp).
    template <class Parameter>
    requires(requires { typename Parameter::task_type; }) void add(std::string name, Parameter owned,
                                                                   member_options options = {}) {
        tasks_.check_new(name, options);
        tasks_.push_back(make_task(std::move(name), std::move(owned), options));
    }
    /// Adds memory of the host's: the parameter, its gradient, and the state slots, as a step takes
    /// them. Containers that are variables are referred to, and every update looks up where their
    /// memory is; memory that was given as spans stays where it is as long as the model is used.
    /// What is in it is gone on with, from where the clock of `optimizer` stands; `optimizer` is
    /// copied. For a new run, `optimizer.initialize(w, m, v)` first. An empty gradient, as
    /// std::span<float>(), says that every update is given one by name. What a slice says of decay
    /// and rate_scale holds besides `options`, and its id in stochastic rounding is a hash of the
    /// name unless it has one. Throws as the other `add`, and size_error or buffer_error for
    /// buffers that do not fit each other.
    template <class Element, class Rule, class Regularizer, class Schedule, class Backend>
    void add(std::string name, updater<Element, Rule, Regularizer, Schedule, Backend> const& optimizer,
             slice<updater<Element, Rule, Regularizer, Schedule, Backend>> tensor, member_options options = {}) {
        options = tasks_.check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "slice.step");
        using type = updater<Element, Rule, Regularizer, Schedule, Backend>;
        tasks_.push_back(std::make_unique<detail::borrowing_task<type>>(std::move(name), optimizer, tensor, options));
    }

    /// The same with an optimizer whose policies are chosen at run time, `any_updater`
    /// (gradstep/runtime.hpp), and its tensor: `net.add("w", optimizer, {w, g, slots})`. The list
    /// of slots is copied.
    template <class Updater>
    requires(requires { typename Updater::tensor_type; }) void add(std::string name, Updater const& optimizer,
                                                                   typename Updater::tensor_type const& tensor,
                                                                   member_options options = {}) {
        options = tasks_.check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "step");
        tasks_.push_back(make_task(std::move(name), optimizer, tensor, options));
    }

    /// One step of every parameter, each with its gradient; the order is free, and that of the
    /// parameters the fastest. Those that were added with a gradient may be left out; one that is
    /// given is taken instead, for this step. `options` are those of updater::next_step, for all of
    /// them. Throws, with everything as it was, if a name is unknown, given twice or left out, if a
    /// gradient does not fit its parameter, or if an updater refuses its step. Only what an
    /// executor throws, or a device, comes when parts of the step may have happened: the clocks
    /// then count it. Parameters must not share memory that a step writes: values, state, and
    /// gradients under zero_gradient. The first update after an `add`, and the first with
    /// zero_gradient, check that and throw buffer_error.
    model_result update(std::span<named_gradient const> gradients, step_options const& options = {});
    model_result update(std::initializer_list<named_gradient> gradients, step_options const& options = {});
    /// The same where every parameter was added with its gradient.
    model_result update(step_options const& options = {}) { return update(std::span<named_gradient const>(), options); }

    /// The number of parameters, their `names()` in the order in which they were added, and whether
    /// the model `contains(name)`.
    std::size_t size() const { return tasks_.size(); }
    std::vector<std::string> names() const;
    bool contains(std::string_view name) const { return tasks_.number_of(name) != detail::name_index::none; }

    /// A parameter that the model owns, by name; `Updater` is the type of its optimizer:
    /// net.get<decltype(optimizer)>("deep.bias").values(). Throws value_error for a name that the
    /// model does not have, a parameter of another updater, or one whose memory is the host's.
    template <class Updater> auto& get(std::string_view name) { return *find<std::remove_const_t<Updater>>(name); }
    template <class Updater> auto const& get(std::string_view name) const {
        return *find<std::remove_const_t<Updater>>(name);
    }

    /// The clock of a parameter, by name: all that a checkpoint of the host's memory needs besides.
    /// Each has its own, and an update moves all. `seek` puts it to where a run stood. Throws
    /// value_error for an unknown name, or a negative count.
    gradstep::clock clock(std::string_view name) const { return tasks_[tasks_.index_of(name, "clock")].clock(); }
    void seek(std::string_view name, gradstep::clock at) { tasks_[tasks_.index_of(name, "seek")].seek(at); }

    /// What files say of a parameter: the shape of its values, and, where the model has a part of a
    /// tensor, which part. `load` then refuses a file that says something else. Throws value_error
    /// for an unknown name, and size_error for a shape of another number of elements or a part that
    /// is not within the tensor.
    void set_shape(std::string_view name, std::vector<std::uint64_t> extents);
    /// The part of a larger tensor that a parameter is, which its files carry and a load compares.
    /// Throws value_error for an unknown name and a rank that is not in [0, ranks), size_error for
    /// a part that is not within the tensor.
    void set_shard(std::string_view name, tensor_shard const& shard);

    /// The average that a parameter keeps (`averaged`), by name, as a copy, whoever has its memory;
    /// T is the type of its state, which has all its digits. Throws value_error for an unknown
    /// name, a parameter without an average, and another type of state; sequence_error while a step
    /// is pending (compressed_model).
    template <class T = float> std::vector<T> average(std::string_view name) const {
        auto& task = tasks_[tasks_.index_of(name, "average")];
        if (!task.keeps_average())
            detail::fail<value_error>({"average: ", task.name, " keeps no average: give gs::averaged{...}"});
        tasks_.require_idle("average"); // the clocks have moved, the averages have not
        std::vector<T> out;
        if (!task.average(detail::type_id_of<T>(), &out))
            detail::fail<value_error>(
                {"average: the state of ", task.name, " is of another type than was asked for: ", task.description()});
        return out;
    }
    /// Puts the averages that parameters keep (`averaged`) in the place of their weights, until
    /// what it returns ends or `restore` is called; parameters without an average stay as they are.
    /// Weights of the host's are written to where they are. It takes memory for as many weights,
    /// and no step in the meantime. Where it throws, all weights are there: value_error if no
    /// parameter keeps an average, sequence_error where an average is in its place already, or while
    /// a step is pending.
    [[nodiscard]] applied_average<model> apply_average();
    /// Brings the trained weights back. Throws sequence_error where no average is in their place.
    void restore();
    /// Whether the average of a parameter is in its place.
    bool average_is_applied() const;

    /// Writes all that a run needs to go on to a safetensors file (header-only programs include
    /// gradstep/io/checkpoint.hpp): of every parameter, whoever has its memory, values, state,
    /// clock and policies (docs/checkpoints.md). The file is there once it is whole and on the
    /// disk; until then the one before is. Nothing is copied, but for what lies on a device, in
    /// pieces. Throws sequence_error where an average is in the place of the weights or a step is
    /// pending, and io_error.
    void save(std::string const& file) const;
    /// Goes on from where `save` was called, bit for bit: the model has the parameters of that one,
    /// of the same names, sizes, elements and rules, in any order; the numbers of the policies, and
    /// its options, are its own. Throws as `save`, and value_error or size_error for a file of
    /// something else or of none of it, naming the first difference; the model is then as it was.
    /// Where the system fails to read, or a device, in the middle of the data, parameters are
    /// partly those of the file.
    void load(std::string const& file);
    /// Loads what `options` ask for of a file (gradstep/io/load_options.hpp): parameters that it
    /// lacks may stay as they are, others be ignored, names changed, rows added or left out.
    /// Returns a load_report. Throws as the other.
    load_report load(std::string const& file, load_options const& options);

    /// One line for each parameter: its name, its length, and its updater.
    std::string description() const;

    /// The parameters and the phases of a step, for classes of gradstep that take steps in other
    /// ways: `compressed_model`, and the workers of gradstep::distributed.
    detail::task_set& tasks() { return tasks_; }

private:
    std::vector<detail::saved_state> states(char const* call) const; // io/checkpoint.ipp has it, as save and load
    void restore_all();

    template <class Updater> detail::parameter_of<Updater>* find(std::string_view name) const {
        auto& task = tasks_[tasks_.index_of(name, "get")];
        if (task.parameter_type() == nullptr)
            detail::fail<value_error>("get: the memory of " + task.name +
                                      " is the host's: its values and state are there, and its clock is clock(name)");
        if (task.parameter_type() != detail::type_id_of<detail::parameter_of<Updater>>())
            detail::fail<value_error>("get: the parameter " + task.name +
                                      " has an updater of another type than was asked for: " + task.description());
        return static_cast<detail::parameter_of<Updater>*>(task.owned_parameter());
    }

    detail::task_set tasks_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model.ipp>
#endif
