#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gradstep/clipping/global_norm.hpp>
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/core/apart.hpp>
#include <gradstep/core/executor.hpp>
#include <gradstep/core/reduce.hpp>
#include <gradstep/core/saved_names.hpp>
#include <gradstep/core/tensor_shard.hpp>
#include <gradstep/core/type_id.hpp>
#include <gradstep/model/model_message.hpp>
#include <gradstep/model/name_index.hpp>
#include <gradstep/model/named_gradient.hpp>
#include <gradstep/model/norms.hpp>
#include <gradstep/model/parameter_task.hpp>
#include <gradstep/model/pieces.hpp>
#include <gradstep/parameter.hpp>
#include <gradstep/state/saved_state.hpp>

namespace gradstep {

/// What a model does beyond its parameters.
struct model_options {
    /// Scales all gradients by min(1, clip_norm / norm), norm being that of all of them together,
    /// gradient_scale included. Integers are left out of both: they hold counts. Infinite: no
    /// clipping, and nothing is read for it. > 0.
    double clip_norm = std::numeric_limits<double>::infinity();
    /// What gradients with elements that are not finite do, as they are before gradient_scale, to
    /// all parameters together. `skip` and `raise` read every gradient once more.
    nonfinite on_nonfinite = nonfinite::propagate;
};

/// What an update of a model has done.
struct model_result {
    /// Whether the step was taken; false leaves every parameter as it was (zero_gradient is done).
    bool applied = true;
    /// The norm of all gradients together, where clip_norm asks for it.
    std::optional<double> norm = {};
    /// Where a gradient is not finite, where on_nonfinite looks for it: the name of the parameter,
    /// and the element.
    std::optional<std::pair<std::string, std::size_t>> nonfinite = {};
};

namespace detail {
inline namespace GRADSTEP_ABI {
class incremental_step; // distributed/incremental_step.hpp
} // namespace GRADSTEP_ABI
} // namespace detail

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
    explicit model(model_options options = {}) : options_(options) { check_options(); }
    /// On the threads of an executor, which must outlive the model.
    template <class Executor>
    requires(executor<Executor>) explicit model(Executor& threads, model_options options = {}) : options_(options) {
        check_options();
        threads_.emplace(threads);
    }

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
        check_new(name, options);
        push_back(std::make_unique<detail::owning_task<Updater>>(std::move(name), std::move(owned), options));
    }
    /// The same for a parameter whose optimizer is chosen at run time, `any_parameter`
    /// (gradstep/runtime.hpp).
    template <class Parameter>
    requires(requires { typename Parameter::task_type; }) void add(std::string name, Parameter owned,
                                                                   member_options options = {}) {
        check_new(name, options);
        push_back(make_task(std::move(name), std::move(owned), options));
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
        check_new(name, options);
        check_new(name, member_options{tensor.rate_scale, tensor.decay});
        options.rate_scale *= tensor.rate_scale;
        options.decay = options.decay * tensor.decay;
        if (tensor.step)
            detail::fail<value_error>({"add: ", name, ": slice.step: ", *tensor.step,
                                       " is given, and a parameter of a model has a clock; expected none: seek it"});
        using type = updater<Element, Rule, Regularizer, Schedule, Backend>;
        push_back(std::make_unique<detail::borrowing_task<type>>(std::move(name), optimizer, tensor, options));
    }

    /// The same with an optimizer whose policies are chosen at run time, `any_updater`
    /// (gradstep/runtime.hpp), and its tensor: `net.add("w", optimizer, {w, g, slots})`. The list
    /// of slots is copied.
    template <class Updater>
    requires(requires { typename Updater::tensor_type; }) void add(std::string name, Updater const& optimizer,
                                                                   typename Updater::tensor_type const& tensor,
                                                                   member_options options = {}) {
        check_new(name, options);
        check_new(name, member_options{tensor.rate_scale, tensor.decay});
        options.rate_scale *= tensor.rate_scale;
        options.decay = options.decay * tensor.decay;
        if (tensor.step)
            detail::fail<value_error>({"add: ", name, ": step: ", *tensor.step,
                                       " is given, and a parameter of a model has a clock; expected none: seek it"});
        push_back(make_task(std::move(name), optimizer, tensor, options));
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

    /// The first half of a step of several trainers: what this one sends of all its gradients.
    /// Parameters of `dgc_momentum` send what their step compresses, of others the gradient goes as
    /// it is, times gradient_scale. clip_norm is of the gradients of this trainer. The clocks move,
    /// and the parameters wait for `apply`. Throws as `update`, with everything as it was, and
    /// sequence_error where the messages of the step before have not been applied, or an average is
    /// in the place of the weights; with on_nonfinite = skip a gradient that is not finite is left
    /// out of the message, with all others. Only what an executor throws, or a device, comes when a
    /// parameter's state may have the gradient already: the clocks then count the step, which has
    /// no message, and nothing waits for `apply`.
    model_message compress(std::span<named_gradient const> gradients, step_options const& options = {}) {
        require_applied("compress");
        if (average_is_applied()) detail::refuse_applied("compress");
        model_result const result = look_at(gradients, options, "compress");
        model_message out;
        out.reserve(members_.size());
        prepare([&](std::size_t i) { members_[i]->begin_message(options, clips_[i], result.applied); });
        detail::rollback_guard no_halves([&] { end_halves(); });
        for (auto const& member : members_) out.push_back(detail::hash_of(member->name), member->message());
        if (!result.applied && options.zero_gradient)
            for (auto const& member : members_) member->zero_gradient();
        no_halves.dismiss();
        awaits_messages_ = true;
        return out;
    }
    model_message compress(std::initializer_list<named_gradient> gradients, step_options const& options = {}) {
        return compress(std::span<named_gradient const>(gradients.begin(), gradients.size()), options);
    }
    /// The same where every parameter was added with its gradient.
    model_message compress(step_options const& options = {}) {
        return compress(std::span<named_gradient const>(), options);
    }
    /// The second half: every parameter has its step with the mean of what all trainers have sent,
    /// in the order of their ranks. The mean of gradients that are sent as they are is rounded to
    /// the type of the parameter. Trainers that apply the same messages hold the same bits. Throws
    /// value_error, with everything as it was, for messages of other models, steps or numbers of
    /// trainers; sequence_error where `compress` has not been called, or an average is in the place
    /// of the weights. Only what an executor throws, or a device, comes when a part of the weights
    /// may have moved: nothing waits for `apply` then, which would move them twice.
    void apply(std::span<model_message const> messages) {
        if (!awaits_messages_) detail::fail<sequence_error>("apply: no step has begun: call compress first");
        if (average_is_applied()) detail::refuse_applied("apply");
        if (messages.empty()) detail::fail<value_error>("apply: there are no messages: give one of each trainer");
        detail::message_list of_member(messages.size());
        for (std::size_t i = 0; i < members_.size(); ++i) {
            for (std::size_t r = 0; r < messages.size(); ++r) {
                of_member[r] = messages[r].find(detail::hash_of(members_[i]->name), i);
                if (of_member[r] == nullptr || messages[r].size() != members_.size())
                    detail::fail<value_error>({"apply: messages[", r, "] has ", messages[r].size(), " parameters, ",
                                               of_member[r] == nullptr ? "none of them " : "one of them ",
                                               members_[i]->name, ": must have the ", members_.size(),
                                               " of this model"});
            }
            members_[i]->begin_apply(of_member);
        }
        detail::rollback_guard ended([&] {
            end_halves();
            awaits_messages_ = false;
        });
        run();
    }
    /// Whether a step has begun whose messages have not been applied.
    bool awaits_messages() const { return awaits_messages_; }

    /// The number of parameters, their `names()` in the order in which they were added, and whether
    /// the model `contains(name)`.
    std::size_t size() const { return members_.size(); }
    std::vector<std::string> names() const;
    bool contains(std::string_view name) const { return number_of(name) != detail::name_index::none; }

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
    gradstep::clock clock(std::string_view name) const { return members_[index_of(name, "clock")]->clock(); }
    void seek(std::string_view name, gradstep::clock at) { members_[index_of(name, "seek")]->seek(at); }

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
    /// name, a parameter without an average, and another type of state; sequence_error between
    /// `compress` and `apply`.
    template <class T = float> std::vector<T> average(std::string_view name) const {
        auto& member = *members_[index_of(name, "average")];
        if (!member.keeps_average())
            detail::fail<value_error>({"average: ", member.name, " keeps no average: give gs::averaged{...}"});
        require_applied("average"); // the clocks have moved, the averages have not
        std::vector<T> out;
        if (!member.average(detail::type_id_of<T>(), &out))
            detail::fail<value_error>({"average: the state of ", member.name,
                                       " is of another type than was asked for: ", member.description()});
        return out;
    }
    /// Puts the averages that parameters keep (`averaged`) in the place of their weights, until
    /// what it returns ends or `restore` is called; parameters without an average stay as they are.
    /// Weights of the host's are written to where they are. It takes memory for as many weights,
    /// and no step in the meantime. Where it throws, all weights are there: value_error if no
    /// parameter keeps an average, sequence_error where an average is in its place already, or
    /// between `compress` and `apply`.
    [[nodiscard]] applied_average<model> apply_average();
    /// Brings the trained weights back. Throws sequence_error where no average is in their place.
    void restore();
    /// Whether the average of a parameter is in its place.
    bool average_is_applied() const;

    /// Writes all that a run needs to go on to a safetensors file (header-only programs include
    /// gradstep/io/checkpoint.hpp): of every parameter, whoever has its memory, values, state,
    /// clock and policies (docs/checkpoints.md). The file is there once it is whole and on the
    /// disk; until then the one before is. Nothing is copied, but for what lies on a device, in
    /// pieces. Throws sequence_error where an average is in the place of the weights or messages
    /// have not been applied, and io_error.
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

private:
    friend class detail::incremental_step;
    std::vector<detail::saved_state> states(char const* call) const; // io/checkpoint.ipp has it, as save and load
    void check_options() const;

    void check_new(std::string const& name, member_options const& options) const;
    void push_back(std::unique_ptr<detail::parameter_task> member);

    // Throws value_error where the tensors of a new member have the names of others in files;
    // returns what it adds to a header.
    std::uint64_t require_apart_in_files(detail::parameter_task const& member) const;
    static detail::parameter_task::in_files_type& in_files_of(detail::parameter_task& member);

    void restore_all();

    std::size_t number_of(std::string_view name) const;
    std::size_t index_of(std::string_view name, char const* call) const;
    template <class Updater> detail::parameter_of<Updater>* find(std::string_view name) const {
        auto& member = *members_[index_of(name, "get")];
        if (member.parameter_type() == nullptr)
            detail::fail<value_error>("get: the memory of " + member.name +
                                      " is the host's: its values and state are there, and its clock is clock(name)");
        if (member.parameter_type() != detail::type_id_of<detail::parameter_of<Updater>>())
            detail::fail<value_error>("get: the parameter " + member.name +
                                      " has an updater of another type than was asked for: " + member.description());
        return static_cast<detail::parameter_of<Updater>*>(member.owned_parameter());
    }

    void end_halves() {
        for (auto const& member : members_) member->end_halves();
    }
    void require_applied(char const* call) const;

    // What a step looks at before anything changes: every member has its gradient; what is not
    // finite, as on_nonfinite says; the norm, and by what each is scaled, clips_.
    model_result look_at(std::span<named_gradient const> gradients, step_options const& options, char const* call);
    // What was prepared.
    void run();

    // Gives every member its gradient.
    void match(std::span<named_gradient const> gradients, step_options const& options, char const* call);

    // prepare_one(i) for member i, for each or for none.
    template <class PrepareOne> void prepare(PrepareOne const& prepare_one) {
        std::size_t done = 0;
        detail::rollback_guard clocks_back([&] {
            while (done-- != 0) members_[done]->withdraw();
        });
        for (; done < members_.size(); ++done) {
            detail::fetch(members_, done + 1, 512);
            prepare_one(done);
        }
        clocks_back.dismiss();
    }

    std::optional<std::pair<std::string, std::size_t>> find_nonfinite();

    // Scaling by a norm that is not finite would spoil every weight.
    [[noreturn]] void refuse_norm(double norm, char const* call);

    void require_apart(bool zeroes);

    // Calls f(i, first, last) for pieces of member i that cover every member once, on the threads
    // of the executor.
    template <class F> void for_each_block(F const& f) const { for_each_block_of(members_, f); }
    template <class Pointers, class F> void for_each_block_of(Pointers const& all, F const& f) const {
        detail::for_each_block_of(all, threads(), f);
    }
    detail::executor_reference const* threads() const { return threads_ ? &*threads_ : nullptr; }

    model_options options_;
    std::vector<std::unique_ptr<detail::parameter_task>> members_;
    detail::name_index index_;
    std::uint64_t header_bytes_ = 0; // at most, of a file's
    bool has_own_limits_ = false, awaits_messages_ = false;
    // No two members share memory, as an update has shown; nor gradients that are written, as one
    // with zero_gradient has.
    bool is_apart_ = false, gradients_are_apart_ = false;
    bool is_stepping_ = false; // by an incremental_step
    std::vector<bool> given_;  // of an update, as what follows: kept, so that the next one does not allocate
    std::vector<std::atomic<std::size_t>> found_;
    std::vector<double> clips_;
    detail::gradient_norms norms_;
    detail::launch_batch waiting_;
    std::optional<detail::executor_reference> threads_; // empty: the caller's
};

} // namespace GRADSTEP_ABI
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model.ipp>
#endif
