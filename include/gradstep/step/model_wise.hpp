#pragma once
#include <gradstep/kernel/batch.hpp>
#include <gradstep/kernel/detail/row_wise.hpp>
#include <gradstep/policy/concepts.hpp>
#include <gradstep/step/detail/difference.hpp>
#include <gradstep/step/detail/model_sums.hpp>
#include <gradstep/step/detail/step_checks.hpp>
#include <gradstep/step/detail/step_tensors.hpp>
#include <gradstep/step/prepared_step.hpp>
#include <gradstep/step/step_calls.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Rule, class Sums> model_sums model_sums_of(Sums const& sums) {
    constexpr std::size_t count = sum_count<Rule>;
    static_assert(count <= std::tuple_size_v<model_sums>,
                  "gradstep: model-wise rule: `partial_sums` has more than 4 members; expected 1 to 4");
    model_sums out{};
    host_each<count>([&](auto m) {
        static_assert(!is_maximum<Rule, m>,
                      "gradstep: model-wise rule: a member of `partial_sums` is a maximum; expected sums only");
        out[m] = static_cast<double>(nth<m, count>(sums));
    });
    return out;
}

// The part of a state that the clock keeps: the numbers with a name.
template <class Rule> clock_state kept_state(clock_state of) {
    for (std::size_t i = Rule::clock_state_names.size(); i != of.size(); ++i) of[i] = 0;
    return of;
}

// The state of the clock after step t, and what `finalize` reads in the entries without a name.
// Sums or results that are not finite leave the numbers with a name as they were, the others 0.
template <class Rule>
clock_state settled_state(Rule const& rule, std::int64_t t, clock_state const& before, model_sums const& sums,
                          [[maybe_unused]] double loss) {
    constexpr std::size_t count = sum_count<Rule>;
    if (!are_finite(sums)) return kept_state<Rule>(before);
    typename Rule::template partial_sums<double> of;
    host_each<count>([&](auto m) { nth<m, count>(of) = sums[m]; });
    clock_state after;
    if constexpr (settles_by_loss<Rule>) after = rule.settle(t, before, of, loss);
    else after = rule.settle(t, before, of);
    return are_finite(after) ? after : kept_state<Rule>(before);
}
// Sets what the elements of a tensor share in the second pass.
template <class Updater>
void finalize_model(prepared_step<Updater> const& step, step_scalars<Updater>& scalars, clock_state const& after) {
    step_info const now{step.now.t, scalars.by_model.rate, step.now.state};
    scalars.by_model.value = step.rule.template finalize<typename Updater::traits::compute>(now, after);
}

// What a block of a tensor adds to the sums of the first pass.
template <class Updater>
model_sums sums_of_block(typename Updater::backend_type const& backend, prepared_step<Updater> const& step,
                         slice<Updater> const& x, std::size_t block) {
    model_sums out{};
    backend.for_each_part(1, [&](std::size_t) { // subnormals as the backend treats them
        for_kernel_of<kernel_forms{.copies = false}>(
            step, step.own, x, 0, step.now.t, [&]<class Kernel>(Kernel const& kernel) {
                using packs = typename Updater::backend_type::template pack<typename Updater::traits::compute>;
                out = model_sums_of<typename Updater::rule_type>(
                    block_sums<Kernel>::template of_block<packs>(kernel, x.weight.size(), block));
            });
    });
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// The step of a model-wise rule (prodigy, dog). One call is the step of a whole model: it adds
/// sums over all tensors of the call, settles the numbers that the rule keeps in the clock, and
/// updates the tensors. Apply each step once, with all tensors:
///
///     std::vector<gs::slice<decltype(optimizer)>> model = {{w, g, m, v, s, x0}, {bias, ...}};
///     optimizer.next_step()(model);
///
/// A call with one tensor is the step of a model of one tensor. The step refers to its updater,
/// which must not be moved or destroyed before the call. After the call, `updater::clock()` has the
/// new numbers. A second call, and a call after the next `next_step` or `seek`, throws
/// sequence_error. A step that you do not apply leaves the numbers as they were.
///
/// The sums are in double, in a fixed order: the blocks of a tensor in order, then the tensors in
/// order. The numbers are thus reproducible bit for bit for every backend and number of threads. A
/// tensor with rate_scale 0 takes part in the sums; leave out tensors that have no gradient.
template <class Updater>
class model_wise_step : public step_calls<model_wise_step<Updater>, Updater>, public detail::without_difference {
    friend step_calls<model_wise_step, Updater>;
    using traits = typename Updater::traits;
    using rule_type = typename Updater::rule_type;
    using backend_type = typename Updater::backend_type;

public:
    /// Made by `updater::next_step`. `decay` is the factor of the decay.
    model_wise_step(Updater& from, step_info now, step_options const& options, double decay)
        : prepared_(from, now, options, decay), backend_(from.backend()), of_(&from) {
        static_assert(
            requires { requires backend_type::sums_models; },
            "gradstep: model-wise rule: the backend has no sums over a model, as Thrust's; expected "
            "serial_backend or simd_backend");
        if constexpr (detail::settles_by_loss<rule_type>) {
            if (!options.loss) detail::refuse_missing_loss();
            loss_ = *options.loss;
        }
    }

    /// The prepared numbers of the step, for code that runs kernels itself.
    prepared_step<Updater> const& prepared() const { return prepared_; }
    /// The backend that runs the step.
    backend_type const& backend() const { return backend_; }

    /// Updates a model. Error messages number the tensors from `first`.
    void update_all(std::span<slice<Updater> const> tensors, std::size_t first) const {
        for (std::size_t k = 0; k < tensors.size(); ++k) check(tensors[k], first + k);
        auto others = detail::prepare_own_scalars(prepared_, tensors, first);
        require_pending();
        run(tensors, others.numbers.data(), others.by_number);
    }

    /// Checks the buffers, and returns a function without arguments that runs the step on a model
    /// of one tensor, as `step::begin` does.
    template <class W, class G, class... S> auto begin(std::uint64_t id, W& weight, G& gradient, S&... state) const {
        static_assert(detail::contiguous_buffer<G> || !detail::lazy_buffer<G, W>,
                      "gradstep: model-wise rule: it reads the gradient twice, and a lazy one can be read once; "
                      "expected memory; evaluate it first");
        slice<Updater> tensor(detail::for_one_call{}, weight, gradient, state...);
        tensor.id = id;
        return begin(tensor);
    }
    /// The same for one slice. It ignores the tensor's rate_scale.
    auto begin(slice<Updater> const& tensor) const {
        check(tensor);
        require_pending();
        return [this, tensor] { run({&tensor, 1}, nullptr, {}); };
    }
    /// Throws the errors that a step on this tensor throws before it writes anything.
    void check(slice<Updater> const& x, std::size_t number = detail::only_tensor) const {
        detail::check_tensor(prepared_, x, number);
    }

    /// Returns one checked tensor for code that runs the passes itself, as a model does. The batch
    /// refers to the step. After the first pass of all tensors, call `settle`.
    step_batch<Updater> batch(slice<Updater> const& tensor) const {
        check(tensor);
        return {prepared_, {&tensor, 1}};
    }
    /// Returns the state of the clock after the step, from the sums of all tensors.
    clock_state settled(detail::model_sums const& sums) const {
        return detail::settled_state(prepared().rule, this->number(), prepared().now.state, sums, loss_);
    }
    /// Sets what `settled` returned: in the updater's clock, and for the batches of this step.
    void settle(clock_state const& after) {
        detail::finalize_model(prepared_, prepared_.own, after);
        of_->settle(detail::kept_state<rule_type>(after));
    }

private:
    void require_pending() const {
        if (!of_->awaits(this->number())) detail::refuse_settled(this->number());
    }
    // Both passes of checked tensors. `others` are changed.
    void run(std::span<slice<Updater> const> tensors, std::uint32_t const* numbers,
             std::span<step_scalars<Updater>> others) const {
        prepared_step<Updater> now = prepared();
        step_batch<Updater> const batch{now, tensors, numbers, others.data()};
        detail::model_sums sums{};
        for (std::size_t k = 0; k < tensors.size(); ++k)
            for_kernel_of<kernel_forms{.copies = false}>(
                now, batch.scalars(k), tensors[k], 0, this->number(), [&](auto const& kernel) {
                    single const one{kernel, tensors[k].weight.size(), batch.bytes};
                    detail::add_sums(sums, detail::model_sums_of<rule_type>(backend().sums_of(one)));
                });
        clock_state const after = settled(sums);
        detail::finalize_model(now, now.own, after);
        for (auto& one : others) detail::finalize_model(now, one, after);
        of_->settle(detail::kept_state<rule_type>(after));
        backend().run(batch);
    }

    prepared_step<Updater> prepared_;
    backend_type backend_;
    Updater* of_;
    double loss_ = 0;
};
} // namespace gradstep::inline GRADSTEP_ISA
