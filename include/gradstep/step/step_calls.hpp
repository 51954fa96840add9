#pragma once
#include <gradstep/memory/buffer.hpp>
#include <gradstep/step/slice.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// The calls of every step. `Step` is the step's own class: `step`, `model_wise_step`,
/// `matrix_step` or `dgc_step`.
template <class Step, class Updater> class step_calls {
public:
    /// The learning rate of the step, rate_scale included. A model-wise rule scales it by its own
    /// step size.
    double rate() const { return self().prepared().now.rate; }
    /// The number of the step; the first is 1.
    std::int64_t number() const { return self().prepared().now.t; }

    /// Updates one tensor. Pass the parameter, the gradient, and one buffer for each state slot in
    /// the rule's order, then the master copy if there is one. The buffers must be contiguous, have
    /// the same length, and not overlap. The gradient can be a temporary, and a lazy expression if
    /// the rule reads it once. Parameter and state can be a temporary only if it is a view. Throws
    /// size_error or buffer_error before it writes anything.
    ///
    /// For a model-wise rule the tensor is a model. A rule that needs a shape takes it from the
    /// parameter (xtensor, Eigen); otherwise pass a slice. It throws value_error if there is no
    /// shape, and size_error if the shape has another number of elements. A compressed step takes
    /// the mean gradient of all trainers if it is dense. If it is sparse and there is more than one
    /// trainer, it throws sequence_error.
    template <class W, class G, class... S> void operator()(W&& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<W, S...>();
        self().update_one([] {}, 0, weight, gradient, state...);
    }
    /// The same, with the id `id` for stochastic rounding and noise. Tensors of one step need
    /// different ids for independent random numbers.
    template <class W, class G, class... S>
    void update(std::uint64_t id, W&& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<W, S...>();
        self().update_one([] {}, id, weight, gradient, state...);
    }

    /// Updates many tensors in one call. All tensors are checked, and all memory is allocated,
    /// before any is written. No parameter or state can appear twice, and no gradient with
    /// zero_gradient. The elementwise passes are parallel regions over all tensors; a row-wise rule
    /// has two regions for each tensor, and a rule with a shape several passes.
    void operator()(std::span<slice<Updater> const> tensors) const { self().update_all(tensors, 0); }
    /// The same for one slice.
    template <std::same_as<slice<Updater>> Slice> void operator()(Slice const& tensor) const {
        self().update_all({&tensor, 1}, detail::only_tensor);
    }

protected:
    // `Here` is a closure, whose type no other file has: g++ then knows whether the function has
    // one caller, and inlines it there, which saves 15 ns on a few elements.
    template <class Here, class W, class G, class... S>
    void update_one(Here const&, std::uint64_t id, W& weight, G& gradient, S&... state) const {
        self().begin(id, weight, gradient, state...)();
    }

private:
    GRADSTEP_INLINE Step const& self() const { return static_cast<Step const&>(*this); }
};
} // namespace gradstep::inline GRADSTEP_ISA
