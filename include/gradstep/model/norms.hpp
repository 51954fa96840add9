#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <gradstep/core/executor.hpp>
#include <gradstep/model/step_task.hpp>

namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// The norms of the gradients of parameters: the same sums of the same blocks as gs::global_norm has,
// whoever computes them. It keeps its memory, so that the next step takes none.
class gradient_norms {
public:
    using tasks = std::span<step_task* const>;

    // Of all together.
    double of_all(tasks all, executor_reference const* threads);

    // What each has to be scaled by to keep its own limit goes to `clips`, 1 if it has none; `scale` is
    // what the gradients are scaled by. Returns the first parameter with a norm that is not finite, if
    // there is one: `clips` is then incomplete.
    struct infinite_norm {
        std::size_t task;
        double norm;
    };
    std::optional<infinite_norm> own_clips(tasks all, executor_reference const* threads, double scale,
                                           std::vector<double>& clips);

private:
    // Of each: the sum of the squares of its gradient times `scale`; with `limited`, only of those with
    // a limit of their own. The block sums of all[i] are first_[i] and those that follow.
    std::vector<double> const& sums_of(tasks all, executor_reference const* threads, double scale, bool limited);

    std::vector<std::size_t> first_;
    std::vector<double> block_sums_, sums_;
    std::array<std::vector<double>, 3> found_; // of one step: as they are, and times powers of two
    std::vector<bool> seen_;
};

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/norms.ipp>
#endif
