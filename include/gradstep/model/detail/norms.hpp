#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/memory/executor.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The norms of the gradients of parameters. It sums the same blocks in the same order as
// gs::global_norm, on any number of threads. It keeps its memory, so that the next step allocates
// none. A task is a step_task, or another type with its functions that read a gradient.
template <class Task> class gradient_norms {
public:
    using tasks = std::span<Task* const>;

    // The norm of all gradients together.
    double of_all(tasks all, executor_reference const* threads);

    // Writes to `clips` the factor that keeps each gradient within its own limit: 1 if it has no
    // limit. All gradients are also scaled by `scale`. Returns the first parameter with a norm that
    // is not finite, if there is one: `clips` is then incomplete.
    struct infinite_norm {
        std::size_t task;
        double norm;
        bool of_weights = false;
    };
    std::optional<infinite_norm> own_clips(tasks all, executor_reference const* threads, double scale,
                                           std::vector<double>& clips);

private:
    // For each gradient, the sum of the squares of its elements times `scale`: for all, or only for
    // gradients with a limit of their own; or for the weights, if the limit is adaptive. The block
    // sums of all[i] begin at first_[i].
    enum class numbers { gradients, limited_gradients, limiting_weights };
    std::vector<double> const& sums_of(tasks all, executor_reference const* threads, double scale, numbers of);
    // The limits of adaptive limits; the first norm that is not finite.
    std::optional<infinite_norm> find_limits(tasks all, executor_reference const* threads);

    std::vector<std::size_t> first_;
    std::vector<double> block_sums_, sums_;
    std::array<std::vector<double>, 3> found_; // of one step: unscaled, and times powers of two
    std::vector<bool> seen_;
    std::vector<double> limits_; // of this step, where limits are adaptive
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/detail/norms.ipp>
#endif
