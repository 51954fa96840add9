#pragma once
#include <gradstep/base/detail/type_id.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/memory/applied_average.hpp>
#include <gradstep/memory/detail/row_order.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/memory/tensor_shard.hpp>
#include <gradstep/model/detail/borrowed_parameter.hpp>
#include <gradstep/model/detail/name_index.hpp>
#include <gradstep/model/detail/parameter_of.hpp>
#include <gradstep/model/detail/task_set.hpp>
#include <gradstep/model/model_options.hpp>
#include <gradstep/model/name_patterns.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/policy/clock.hpp>
#include <gradstep/saved/saved_state.hpp>
#include <gradstep/step/ascent.hpp>
#include <gradstep/step/slice.hpp>
#include <gradstep/step/step_options.hpp>
#include <gradstep/updater.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// Named parameters that you update together, each with its own updater. An update is one pass,
/// which is split over threads by memory traffic. The model owns a parameter, or updates your
/// memory, which you give as a slice:
///
///     gs::model net{pool, {.clip_norm = 1.0}};
///     auto const ftrl = gs::make_updater<float>(gs::ftrl{.l1 = 1.0}, gs::constant{0.1});
///     net.add("wide.weight", gs::parameter{ftrl, wide});
///     net.add("deep.bias", gs::parameter{optimizer, bias}, {.decay = false});
///     net.update({{"wide.weight", g_wide}, {"deep.bias", g_bias}});
///
///     gs::model over_memory{pool, {.clip_norm = 1.0}};
///     over_memory.add("deep.weight", adam, {w, g, m, v});
///     over_memory.add("deep.bias", momentum, {bias, g_bias, bias_m}, {.decay = false});
///     over_memory.update(); // with the gradients that are in g and g_bias
///
/// An update takes a gradient for each parameter, checks everything, and then updates all
/// parameters. If a check fails, it throws and changes nothing. Some parameters cannot be split
/// into chunks, and their own backends update them: parameters of row-wise rules one after the
/// other, parameters of Thrust backends together. After the first update, later ones allocate
/// nothing, except what row-wise rules, devices and executors need.
class model {
public:
    /// Updates on the caller's thread. Throws value_error for a clip_norm that is not > 0.
    explicit model(model_options options = {}) : tasks_(options) {}
    /// Updates on the threads of an executor, which must outlive the model.
    template <class Executor>
    requires(executor<Executor>) explicit model(Executor& threads, model_options options = {})
        : tasks_(options, detail::executor_reference(threads)) {}

    template <class Executor>
    requires(executor<Executor> && !std::is_lvalue_reference_v<Executor>) explicit model(Executor&&,
                                                                                         model_options options = {})
        : tasks_(options) {
        static_assert(sizeof(Executor) == 0,
                      "gradstep: model: the executor is a temporary, and must outlive the model; expected a variable");
    }
    model(model&&) = default;
    model& operator=(model&&) = default;

    /// Adds a parameter, which the model owns from now on. Throws value_error for a name that the
    /// model already has, for more than 10^6 parameters, and for a rate_scale out of range. It also
    /// throws value_error for a name that no file can contain: an empty name, text that is not
    /// UTF-8 or has a zero byte, "__metadata__", or "w/m" if "w" has a slot m. Throws
    /// sequence_error while a step is pending.
    template <class Updater> void add(std::string name, parameter<Updater> owned, tensor_options options = {}) {
        tasks_.check_new(name, options);
        tasks_.push_back(std::make_unique<detail::task_of<parameter<Updater>>>(name, options, std::move(owned)));
    }
    /// The same for a parameter whose optimizer is chosen at run time, `any_parameter`
    /// (gradstep/runtime.hpp).
    template <class Parameter>
    requires(requires(Parameter x) { Parameter::owned(std::move(x)); }) void add(std::string name, Parameter owned,
                                                                                 tensor_options options = {}) {
        tasks_.check_new(name, options);
        tasks_.push_back(std::make_unique<detail::task_of<Parameter>>(name, options, std::move(owned)));
    }
    /// Adds a parameter in your memory: the values, the gradient, and the state slots, as for a
    /// step. If a buffer is a container variable, the model refers to it, and every update looks up
    /// its memory. Memory given as spans must not move as long as you use the model. The model
    /// copies `optimizer`, and continues from the memory's contents and the optimizer's clock. For
    /// a new run, call `optimizer.initialize(w, m, v)` first.
    ///
    /// With an empty gradient, as std::span<float>(), every update needs a gradient by name. The
    /// slice's decay and rate_scale are multiplied with `options`. Its id for random numbers
    /// is a hash of the name unless the slice has one. Throws the errors of the first `add`, and
    /// size_error or buffer_error for buffers that do not fit each other.
    template <class Element, class Rule, class Regularizer, class Schedule, class Backend>
    void add(std::string name, updater<Element, Rule, Regularizer, Schedule, Backend> const& optimizer,
             slice<updater<Element, Rule, Regularizer, Schedule, Backend>> tensor, tensor_options options = {}) {
        options = tasks_.check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "slice.step");
        using type = detail::borrowed_parameter<updater<Element, Rule, Regularizer, Schedule, Backend>>;
        std::unique_ptr<detail::parameter_task> made;
        detail::with_context([&] { return name + ": "; },
                             [&] { made = std::make_unique<detail::task_of<type>>(name, options, optimizer, tensor); });
        tasks_.push_back(std::move(made));
    }

    /// The same with an optimizer whose policies are chosen at run time, `any_updater`
    /// (gradstep/runtime.hpp), and its tensor: `net.add("w", optimizer, {w, g, slots})`. The list
    /// of slots is copied.
    template <class Updater>
    requires(requires { typename Updater::tensor_type; }) void add(std::string name, Updater const& optimizer,
                                                                   typename Updater::tensor_type const& tensor,
                                                                   tensor_options options = {}) {
        options = tasks_.check_new(name, options, {tensor.rate_scale, tensor.decay}, tensor.step, "step");
        std::unique_ptr<detail::parameter_task> made;
        detail::with_context([&] { return name + ": "; },
                             [&] {
                                 made = std::make_unique<detail::parameter_task>(
                                     name, lent_parameter(name, optimizer, tensor), options);
                             });
        tasks_.push_back(std::move(made));
    }

    /// One step of every parameter with its gradient. Gradients can come in any order; the order of
    /// the parameters is the fastest. You can leave out a parameter that was added with a gradient.
    /// If you pass a gradient for it, that gradient replaces its own one in this step. `options`
    /// apply to all parameters, as in updater::next_step.
    ///
    /// Throws if a name is unknown, given twice or left out, if a gradient does not fit its
    /// parameter, or if an updater rejects its step. Nothing has changed then. If an executor or a
    /// device fails, parts of the step may have happened: the clocks then count it. Parameters must
    /// not share memory that a step writes: values, state, and gradients under zero_gradient. The
    /// first update after an `add`, and the first with zero_gradient, check that and throw
    /// buffer_error.
    model_result update(std::span<named_gradient const> gradients, step_options const& options = {});
    model_result update(std::initializer_list<named_gradient> gradients, step_options const& options = {});
    /// The same if every parameter was added with its gradient.
    model_result update(step_options const& options = {}) { return update(std::span<named_gradient const>(), options); }

    /// The first half of a step of sharpness-aware minimization (`sam_options`): moves all weights
    /// along their gradients, whose norm is the norm over the whole model. Your program then
    /// computes the second gradients, and `descend` takes the step:
    ///
    ///     net.ascend({{"w", g_w}, {"b", g_b}}, {.rho = 0.05});
    ///     ...                                     // gradients at the weights that it left
    ///     net.descend({{"w", g_w}, {"b", g_b}});
    ///
    /// Gradients are matched as in `update`. Integer parameters are rejected. The result has the
    /// norm. If a gradient is not finite and on_nonfinite is `skip`, the result says so, the
    /// weights stay, and the step is over. Between the halves, `add`, all other steps, averages,
    /// `save` and `load` throw sequence_error, also of the parameters that the model owns;
    /// `restore` gives up the step. Throws the errors of `update`, and value_error for a norm that
    /// is not finite. Nothing has changed then.
    model_result ascend(std::span<named_gradient const> gradients, sam_options const& how = {});
    model_result ascend(std::initializer_list<named_gradient> gradients, sam_options const& how = {});
    /// The same if every parameter was added with its gradient.
    model_result ascend(sam_options const& how = {}) { return ascend(std::span<named_gradient const>(), how); }
    /// The second half: restores all weights bit for bit, and takes a step with these gradients, as
    /// `update` does. If a check fails, nothing has changed, and you can call it again. If
    /// on_nonfinite skips the step, the weights are restored. Throws sequence_error without an
    /// `ascend`.
    model_result descend(std::span<named_gradient const> gradients, step_options const& options = {});
    model_result descend(std::initializer_list<named_gradient> gradients, step_options const& options = {});
    /// The same if every parameter was added with its gradient.
    model_result descend(step_options const& options = {}) {
        return descend(std::span<named_gradient const>(), options);
    }
    /// Whether `ascend` has moved the weights, and neither `descend` nor `restore` was called.
    bool is_ascended() const { return is_ascended_; }

    /// Freezes the parameters whose names match a pattern. A frozen parameter does not change: a
    /// step does not read its gradient, advance its clock or apply its decay, and norms leave it
    /// out. You can leave its gradient out of an update; if you pass one, it is ignored.
    /// Checkpoints contain its values and state, but not that it is frozen. Throws value_error for
    /// a pattern that matches no name, and sequence_error while a step is pending or between
    /// `ascend` and `descend`.
    ///
    ///     net.freeze({"embed.*"});
    void freeze(name_patterns names) { tasks_.set_frozen(std::move(names), true, "freeze"); }
    /// Updates these parameters again from the next step on. Their clocks continue where they were:
    /// `seek` sets them, and parameters with one model-wise rule need the same clock.
    void unfreeze(name_patterns names) { tasks_.set_frozen(std::move(names), false, "unfreeze"); }
    /// Whether a parameter is frozen. Throws value_error for an unknown name.
    bool is_frozen(std::string_view name) const { return tasks_[tasks_.index_of(name, "is_frozen")].is_frozen; }

    /// Adds rows to several parameters: as many to each (gs::changing_rows). Everything is checked
    /// and allocated before the first parameter changes: it changes all of them, or nothing.
    ///
    ///     net.append({{"means", new_means}, {"colors", new_colors}});
    ///
    /// The values are in host memory. Throws the errors of parameter::append, and value_error for
    /// an unknown name, values of another type, a parameter in your memory, or a shard. Throws
    /// size_error if the numbers of new rows differ, and sequence_error while a step is pending.
    void append(std::span<named_gradient const> values);
    void append(std::initializer_list<named_gradient> values);
    /// Keeps the rows whose element of the mask is true, in all parameters whose names match, or in
    /// none: net.keep({"means", "colors"}, mask). Throws the errors of `append` and
    /// parameter::keep, and value_error for a pattern that matches no name.
    template <class Mask> void keep(name_patterns names, Mask const& mask) {
        keep_rows(std::move(names), detail::mask_of(mask));
    }
    /// The same for parameter::permute.
    template <class Order> void permute(name_patterns names, Order const& order) {
        permute_rows(std::move(names), detail::row_numbers(order));
    }
    /// The same for parameter::reset.
    template <class Rows> void reset(name_patterns names, Rows const& rows) {
        reset_rows(std::move(names), detail::row_numbers(rows));
    }

    /// The number of parameters.
    std::size_t size() const { return tasks_.size(); }
    /// The names of the parameters, in the order in which they were added.
    std::vector<std::string> names() const;
    /// Whether the model has a parameter of this name.
    bool contains(std::string_view name) const { return tasks_.number_of(name) != detail::name_index::none; }

    /// Returns a parameter that the model owns, by its name. `Updater` is the type of its
    /// optimizer: net.get<decltype(optimizer)>("deep.bias").values(). Throws value_error for an
    /// unknown name, a parameter of another updater, or a parameter in your memory.
    template <class Updater> auto& get(std::string_view name) { return *find<std::remove_const_t<Updater>>(name); }
    template <class Updater> auto const& get(std::string_view name) const {
        return *find<std::remove_const_t<Updater>>(name);
    }

    /// The clock of a parameter, by its name. Each parameter has its own clock, and an update
    /// advances all clocks. If you save your memory yourself, save the clocks too. Throws
    /// value_error for an unknown name.
    gradstep::clock clock(std::string_view name) const { return tasks_[tasks_.index_of(name, "clock")].clock(); }
    /// Sets the clock of a parameter to the progress of a run. Throws value_error for an unknown
    /// name, or a negative count.
    void seek(std::string_view name, gradstep::clock at) { tasks_[tasks_.index_of(name, "seek")].seek(at); }

    /// Call it after your program has set the weights of these parameters in its memory, for
    /// example from a file: net.weights_set({"*"}). It adapts their state as updater::weights_set
    /// does. Parameters that the model owns have `set_values`. Throws value_error for a pattern
    /// that matches no name, the errors of `update` for memory that does not fit, and
    /// sequence_error while a step is pending or averages are applied.
    void weights_set(name_patterns names);

    /// Sets the shape of a parameter's values, which checkpoints then contain. `load` rejects a
    /// file with a different shape. `muon` and `adafactor` use it, with all dimensions after
    /// the first one joined. Throws value_error for an unknown name, and size_error for a shape
    /// with another number of elements. The state of adafactor has its lengths: after the first
    /// step another shape throws sequence_error.
    void set_shape(std::string_view name, std::vector<std::uint64_t> extents);
    /// Defines which shard of a larger tensor a parameter is. Checkpoints contain it, and `load`
    /// compares it. Throws value_error for an unknown name and for a rank that is not in [0,
    /// ranks). Throws size_error for a shard that is not within the tensor.
    void set_shard(std::string_view name, tensor_shard const& shard);

    /// Returns a copy of the average that a parameter keeps (`averaged`), by its name. T is the
    /// type of its state, which keeps all digits of the average. Throws value_error for an unknown
    /// name, a parameter without an average, and another type of state. Throws sequence_error while
    /// a step is pending.
    template <class T = float> std::vector<T> average(std::string_view name) const {
        auto& task = tasks_[tasks_.index_of(name, "average")];
        if (!task.keeps_average())
            detail::fail<value_error>({"average: ", task.name}, {"keeps no average"}, {"gs::averaged{...}"});
        tasks_.require_idle("average"); // the clocks have moved, the averages have not
        std::vector<T> out;
        if (!task.average(detail::type_id_of<T>(), &out))
            detail::fail<value_error>({"average: ", task.name}, {"the requested type is not the type of its state"},
                                      {"the type of ", task.description()});
        return out;
    }
    /// Replaces the weights by the averages that parameters keep (`averaged`), until the returned
    /// object is destroyed or you call `restore()`. Parameters without an average do not change.
    /// Averages of parameters in your memory are written to your memory. The call allocates memory
    /// for a copy of the weights. You cannot take a step in the meantime.
    ///
    /// Throws value_error if no parameter keeps an average. Throws sequence_error if averages have
    /// already replaced the weights, or while a step is pending. Nothing has changed then.
    [[nodiscard]] applied_average<model> apply_average();
    /// Restores the trained weights, bit for bit, after `apply_average` or `ascend`. Throws
    /// sequence_error if they are in place.
    void restore();
    /// Whether averages have replaced the weights.
    bool average_is_applied() const;

    /// Writes a checkpoint to a safetensors file: values, state, clock and policies of every
    /// parameter (docs/how_to/checkpoints.md). A header-only program must include
    /// gradstep/checkpoint.hpp. An existing file is replaced when the new one is complete and on
    /// the disk. Only device memory is copied, in chunks. If averages have replaced the weights,
    /// the file contains the trained weights, from which training resumes. Throws io_error, and
    /// sequence_error if a step is pending.
    void save(std::string const& file) const;
    /// Resumes from a file of `save`, bit for bit. This model must have parameters with the same
    /// names, sizes, elements and rules, in any order. It keeps its own options and
    /// hyperparameters.
    ///
    /// Throws the errors of `save`, sequence_error if averages have replaced the weights, and
    /// value_error or size_error for a file that does not match, with the first difference. The
    /// model is then unchanged. If the system or a device fails to read in the middle of the data,
    /// some parameters are loaded and others are not.
    void load(std::string const& file);
    /// Loads the parts that `options` select (gradstep/saved/load_options.hpp), and returns a
    /// load_report. Parameters that the file lacks can keep their values, and other parameters of
    /// the file can be ignored. Names can be mapped, and the number of rows can differ. Throws the
    /// errors of the other `load`.
    load_report load(std::string const& file, load_options const& options);

    /// Describes each parameter in one line: its name, its length, and its updater.
    std::string description() const;

    /// @cond
    /// The parameters and the phases of a step, for gradstep's own classes that order the phases
    /// differently.
    detail::task_set& tasks() { return tasks_; }
    detail::task_set const& tasks() const { return tasks_; }
    /// @endcond

private:
    std::vector<detail::saved_state> states(char const* call) const; // checkpoint.ipp has it, as save and load
    void restore_all();

    struct row_change;
    row_change rearranged(char const* call, detail::parameter_task& task, detail::row_order const& order,
                          named_gradient const* added);
    void commit(std::span<row_change> all);
    template <class Order> void rearrange(char const* call, name_patterns names, Order const& order_of);
    void keep_rows(name_patterns names, std::span<unsigned char const> mask);
    void permute_rows(name_patterns names, std::span<std::int64_t const> order);
    void reset_rows(name_patterns names, std::span<std::int64_t const> ids);

    template <class Updater> detail::parameter_of<Updater>* find(std::string_view name) const {
        auto& task = tasks_[tasks_.index_of(name, "get")];
        if (task.parameter().face_type() == nullptr)
            detail::fail<value_error>(
                {"get: ", task.name}, {"its values and state are in your memory"},
                {"a parameter that the model owns; read your memory, and clock(name) for the clock"});
        if (task.parameter().face_type() != detail::type_id_of<detail::parameter_of<Updater>>())
            detail::fail<value_error>({"get: ", task.name}, {"the requested type is not the type of its updater"},
                                      {"the type of ", task.description()});
        return static_cast<detail::parameter_of<Updater>*>(task.parameter().face());
    }

    void restore_ascended();
    void set_ascent_lock(bool is); // owned parameters, while they are ascended
    void require_kept() const;

    detail::task_set tasks_;
    bool is_ascended_ = false;
};
} // namespace gradstep::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model.ipp>
#endif
