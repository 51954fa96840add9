#pragma once
#include <gradstep/model/detail/task_set.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// A step of a model whose gradients arrive one by one. A parameter is prepared when the exchange of
// its gradient starts, and run when the mean gradient has arrived, chunk by chunk on any thread.
// Call all functions except `run` from one thread. Between the first `prepare` and `end`, the model
// takes no other step, and cannot be saved.
class incremental_step {
public:
    // The part of a parameter from element `first` on.
    class remainder {
    public:
        remainder(parameter_task& of, std::size_t first) : of_(&of), first_(first) {}
        std::size_t size() const { return of_->size() - first_; }
        std::size_t bytes_per_element() const { return of_->bytes_per_element(); }
        bool runs_in_chunks() const { return of_->runs_in_chunks(); }
        void run(std::size_t first, std::size_t last) const { of_->run(first_ + first, first_ + last); }
        void run_whole(launch_batch& waiting) const { of_->run_whole(waiting); }

    private:
        parameter_task* of_;
        std::size_t first_;
    };

    explicit incremental_step(task_set& of) : of_(of) {}

    // Whether a parameter may change before the gradients of all have been looked at.
    bool is_possible() const { return !of_.looks_at_gradients(); }
    // Advances the clock of a parameter, and returns its index. Throws the errors of model::update;
    // nothing has changed then. `run` reads the gradient.
    std::size_t prepare(named_gradient const& gradient);
    // Undoes the last `prepare`.
    void withdraw(std::size_t i);
    // Whether `run` is possible; else only run_rest is.
    bool runs_in_chunks(std::size_t i) const { return of_[i].runs_in_chunks(); }
    // Elements [first, last) of a parameter, whose bounds are multiples of block_size but at the
    // end.
    void run(std::size_t i, std::size_t first, std::size_t last) const noexcept { of_[i].run(first, last); }
    remainder rest_of(std::size_t i, std::size_t first) const { return {of_[i], first}; }
    // On the threads of the model. Throws what an executor or a backend throws.
    void run_rest(std::span<remainder const> rest) const;
    void end();

private:
    task_set& of_;
    std::size_t prepared_ = 0; // parameters
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/distributed/detail/incremental_step.ipp>
#endif
