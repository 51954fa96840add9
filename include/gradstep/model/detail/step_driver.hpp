#pragma once
#include <gradstep/engine/detail/dense_parameter.hpp>
#include <gradstep/model/detail/blocks.hpp>
#include <gradstep/model/detail/norms.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// One step of several parameters that have their gradients. Models and `update_all` use it. A step
// calls the functions in the order of this list; all but `prepare` and `run` can be left out. Until
// `prepare` has returned, nothing has changed. Work is split over `threads`, or done on the
// caller's thread if `threads` is null. All memory of a step is kept for the next one.
class step_driver {
public:
    using tasks = std::span<step_task* const>;
    // The index of a buffer, or of an element, in a task.
    struct task_index {
        std::size_t task, number;
    };

    // Two buffers that overlap, the one that was added later first; `zeroes` is
    // step_options::zero_gradient.
    std::optional<std::pair<task_index, task_index>> find_overlap(tasks all, bool zeroes);
    // The first element that is not finite.
    std::optional<task_index> find_nonfinite(tasks all, executor_reference const* threads);

    // The factors by which `prepare` scales gradients, besides step_options::gradient_scale. None;
    // one for all; or one for each parameter, by its own limit. The last returns the first norm
    // that is not finite, if there is one.
    void clip_none() { clips_.clear(); }
    void clip_all(std::size_t count, double clip) { clips_.assign(count, clip); }
    using infinite_norm = gradient_norms<step_task>::infinite_norm;
    std::optional<infinite_norm> clip_by_own_limits(tasks all, executor_reference const* threads, double scale);
    double clip(std::size_t i) const { return clips_.empty() ? 1 : clips_[i]; }
    // The norm of all gradients together.
    double norm_of(tasks all, executor_reference const* threads);
    // Throws the error for a norm of all gradients that is not finite. `call` is the function, and
    // `use` what scales by the norm.
    [[noreturn]] void refuse_norm(tasks all, executor_reference const* threads, double norm, char const* call,
                                  char const* use);

    // An ascent of parameters that have begun theirs: the norm by which it divides, which throws
    // value_error if it is not finite; `ascend` keeps and moves the weights, or throws and changes
    // none; and `go_back` restores them.
    double ascent_norm(tasks all, executor_reference const* threads, sam_options const& how, char const* call);
    void ascend(tasks all, executor_reference const* threads, sam_options const& how, double scale);
    void go_back(tasks all, executor_reference const* threads);

    // Prepares every task, or none.
    void prepare(tasks all, step_options const& options) {
        prepare_by(all, [&](std::size_t i, double clip) { all[i]->prepare(options, clip); });
    }
    // The same by prepare_one(i, clip), which throws if it has not prepared task i.
    template <class PrepareOne> void prepare_by(tasks all, PrepareOne const& prepare_one) {
        std::size_t done = 0;
        bool is_model_wise = false;
        model_tasks_.clear();
        rollback_guard clocks_back([&] {
            while (done-- != 0) all[done]->withdraw();
        });
        for (; done < all.size(); ++done) {
            fetch(all, done + 1, 1152);
            prepare_one(done, clip(done));
            is_model_wise = is_model_wise || all[done]->is_model_wise();
        }
        if (is_model_wise) gather_model(all);
        clocks_back.dismiss();
    }
    // What was prepared.
    void run(tasks all, executor_reference const* threads);

private:
    // A task with a model-wise rule, the first one that is settled with it, and its first block.
    struct model_task {
        step_task* task;
        std::size_t group, first_block;

        std::size_t size() const { return task->size(); }
        std::size_t bytes_per_element() const { return task->bytes_per_element(); }
    };
    // Finds the tasks with model-wise rules, and allocates memory for their sums. Throws
    // value_error if tensors with the same rule have different clocks.
    void gather_model(tasks all);
    // The first pass of their steps: adds the sums of the tensors with the same rule, and settles.
    void settle_model(executor_reference const* threads);

    apart_check apart_;
    std::vector<model_task> model_tasks_;
    std::vector<model_task*> task_pointers_; // the same, for for_each_block_of
    std::vector<model_sums> blocks_, sums_;
    std::vector<std::atomic<std::size_t>> found_;
    std::vector<double> clips_;
    gradient_norms<step_task> norms_;
    launch_batch waiting_;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/detail/step_driver.ipp>
#endif
