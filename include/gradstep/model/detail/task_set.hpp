#pragma once
#include <gradstep/model/detail/name_index.hpp>
#include <gradstep/model/detail/parameter_task.hpp>
#include <gradstep/model/detail/step_driver.hpp>
#include <gradstep/model/model_options.hpp>
#include <gradstep/model/name_patterns.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The parameters of a model by name, and the phases of their steps. gs::model is made of it;
// classes that take steps in other phases use it, too. A step calls `look_at`, `prepare` and `run`,
// in this order. Until `prepare` has returned, nothing has changed. All memory of a step is kept
// for the next one.
class task_set {
public:
    // Throws value_error for a clip_norm that is not > 0.
    explicit task_set(model_options const& options, std::optional<executor_reference> threads = {});

    // Throws value_error if the name or the options of a new parameter are not allowed, and
    // sequence_error while a step is pending.
    void check_new(std::string const& name, tensor_options const& options) const;
    // The same for a tensor in the application's memory with its own options. Returns both options
    // in one. `step` is the tensor's own step, which is not allowed; `what` is its name.
    tensor_options check_new(std::string const& name, tensor_options options, tensor_options const& of_tensor,
                             std::optional<std::int64_t> const& step, char const* what) const;
    void push_back(std::unique_ptr<parameter_task> task);

    std::size_t size() const { return tasks_.size(); }
    parameter_task& operator[](std::size_t i) const { return *tasks_[i]; }
    // The number of a parameter, or name_index::none.
    std::size_t number_of(std::string_view name) const;
    // The same; throws value_error in the name of `call` if there is none.
    std::size_t index_of(std::string_view name, char const* call) const;
    model_options const& options() const { return options_; }
    // Whether a step reads all gradients before it changes a parameter: for a norm, for elements
    // that are not finite, or for a model-wise rule.
    bool looks_at_gradients() const;

    // The parameters whose names match. Throws value_error, in the name of `call`, for a pattern
    // that matches none.
    std::vector<parameter_task*> matching(name_patterns names, char const* call) const;
    // Whether steps leave the parameters out whose names match.
    void set_frozen(name_patterns names, bool is, char const* call);

    // While a step is pending, other calls are refused: by `refuse`, which throws.
    using refusal = void (*)(char const* call);
    void set_pending(refusal refuse) { refuse_ = refuse; }
    void end_pending() { refuse_ = nullptr; }
    void require_idle(char const* call) const {
        if (refuse_ != nullptr) refuse_(call);
    }

    // What a step looks at before anything changes: every parameter has its gradient; elements that
    // are not finite, as on_nonfinite says; the norm, and by what each gradient is scaled.
    model_result look_at(std::span<named_gradient const> gradients, step_options const& options, char const* call);
    // Prepares every parameter, or none.
    void prepare(step_options const& options) { driver_.prepare(steps_, options); }
    // The same by prepare_one(i, clip), which throws if it has not prepared parameter i; none is
    // frozen.
    template <class PrepareOne> void prepare_by(PrepareOne const& prepare_one) {
        driver_.prepare_by(steps_, prepare_one);
    }
    // What was prepared.
    void run() { driver_.run(steps_, threads()); }
    // An ascent, as step_driver has it.
    double ascent_norm(sam_options const& how, char const* call) {
        return driver_.ascent_norm(steps_, threads(), how, call);
    }
    void ascend(sam_options const& how, double scale) { driver_.ascend(steps_, threads(), how, scale); }
    void go_back() { driver_.go_back(steps_, threads()); }
    // Calls f(task) for the parameters that a step updates.
    template <class F> void for_each_stepped(F const& f) const {
        for (std::size_t i = 0; i < steps_.size(); ++i) f(stepped(i));
    }
    void zero_gradients() const {
        for (step_task const* const task : steps_) task->zero_gradient();
    }
    executor_reference const* threads() const { return threads_ ? &*threads_ : nullptr; }

private:
    // The parameter that is number i of a step.
    parameter_task& stepped(std::size_t i) const { return static_cast<parameter_task&>(*steps_[i]); }
    // Throws value_error if the tensors of a new parameter have the same names in files as other
    // tensors. Returns the bytes that it adds to a header.
    std::uint64_t require_apart_in_files(parameter_task const& task) const;
    // Gives every parameter its gradient.
    void match(std::span<named_gradient const> gradients, step_options const& options, char const* call);
    std::optional<std::pair<std::string, std::size_t>> find_nonfinite();
    void require_apart(bool zeroes);

    model_options options_;
    std::vector<std::unique_ptr<parameter_task>> tasks_;
    std::vector<step_task*> steps_; // those that are not frozen
    name_index index_;
    std::uint64_t header_bytes_ = 0; // an upper bound for the header of a file
    bool has_own_limits_ = false, is_model_wise_ = false;
    // An update has checked that no two parameters share memory; an update with zero_gradient, that
    // no two gradients do.
    bool is_apart_ = false, gradients_are_apart_ = false;
    refusal refuse_ = nullptr;
    std::vector<bool> given_; // of an update: kept, so that the next one does not allocate
    step_driver driver_;
    std::optional<executor_reference> threads_; // empty: the caller's
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/detail/task_set.ipp>
#endif
