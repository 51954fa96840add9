#pragma once
#include <gradstep/policy/zero_gradient.hpp>
#include <gradstep/step/detail/difference.hpp>
#include <gradstep/step/detail/step_tensors.hpp>
#include <gradstep/step/prepared_step.hpp>
#include <gradstep/step/step_calls.hpp>

namespace gradstep::inline GRADSTEP_ISA {
/// One prepared step of an updater, with its learning rate and bias corrections. You can apply it
/// to any number of tensors, from any thread. Apply it once to each tensor of the model. It is a
/// copy and does not refer to the updater, but a simd_backend with an executor refers to the
/// executor. `updater::next_step` makes it.
///
/// The work on an element has this order: gradient_scale, regularizers from left to right, rule,
/// regularizers that act after it (`proximal`, `after_step`), rounding to storage, averages.
template <class Updater> class step : public step_calls<step<Updater>, Updater> {
    friend step_calls<step, Updater>;
    using traits = typename Updater::traits;
    using compute = typename traits::compute;
    using storage = typename traits::storage;
    using rule_type = typename Updater::rule_type;
    using regularizer_type = typename Updater::regularizer_type;
    template <class W, class G>
    static constexpr bool
        is_lazy = (detail::lazy_buffer<G, W>)&&!detail::contiguous_buffer<G>; // in parentheses for nvcc

public:
    /// Made by `updater::next_step`. `decay` is the factor of the decay.
    step(Updater const& from, step_info now, step_options const& options, double decay)
        : prepared_(from, now, options, decay), backend_(from.backend()) {}

    /// The prepared numbers of the step, for code that runs kernels itself.
    prepared_step<Updater> const& prepared() const { return prepared_; }
    /// The backend that runs the step.
    typename Updater::backend_type const& backend() const { return backend_; }

    /// Updates many tensors. Error messages number them from `first`, for callers that pass a part
    /// of a call.
    void update_all(std::span<slice<Updater> const> tensors, std::size_t first) const {
        for (std::size_t k = 0; k < tensors.size(); ++k) check(tensors[k], first + k);
        auto const others = detail::prepare_own_scalars(prepared_, tensors, first);
        run({prepared_, tensors, others.numbers.data(), others.by_number.data()});
    }

    /// Writes the change of each weight, w_new - w, to `out`, and leaves the weight as it is. The
    /// state advances, so one call is the step of a tensor. For frameworks that add the step to the
    /// parameter themselves. `weight` can be const; `out` has the type of the parameter, and must
    /// be separate from the parameter, the gradient and the state.
    ///
    /// w_new is the weight that the step in place would store, and the change is rounded once. If
    /// w_new / w is in [1/2, 2], the change is exact (Sterbenz), and w + out has the bits of w_new.
    /// Otherwise the rounding of the change is at most half a unit in its last place.
    ///
    /// It works for elementwise and row-wise rules on the CPU. It does not compile for model-wise,
    /// matrix and factored rules, and for block8. Throws the errors of the step in place, and
    /// size_error or buffer_error for `out`, before it writes anything.
    template <class Out, class W, class G, class... S>
    void difference(Out&& out, W const& weight, G&& gradient, S&&... state) const {
        detail::require_lasting<Out, S...>();
        auto&& parameter = detail::as_parameter<storage>(weight);
        detail::require_layout(out, parameter);
        std::span<storage> const to = detail::as_span<storage, typename Updater::backend_type::memory_space>(out);
        if constexpr (is_lazy<W, G>) {
            auto const one = lazy_kernel(0, parameter, gradient, state...);
            detail::tensor<Updater> const tensor(parameter, state...);
            tensor.check_beside("the difference", to, {"gradient", nullptr, 0, 0}, detail::only_tensor);
            run_difference(one.kernel, to);
        } else {
            difference(to, slice<Updater>(detail::for_one_call{}, parameter, gradient, state...));
        }
    }
    /// The same for one slice, with its rate_scale, decay, id and step. Throws buffer_error if it
    /// has a bfloat16_copy, since the parameter is not written.
    template <class Out, std::same_as<slice<Updater>> Slice> void difference(Out&& out, Slice const& tensor) const {
        detail::require_lasting<Out>();
        std::span<storage> const to = detail::as_span<storage, typename Updater::backend_type::memory_space>(out);
        check(tensor);
        if (!tensor.bfloat16_copy.empty())
            detail::refuse_copy(detail::only_tensor, "step.difference leaves the parameter as it is");
        tensor.check_beside("the difference", to, detail::extent_of_gradient<Updater>(tensor), detail::only_tensor);
        auto const others = detail::prepare_own_scalars<Updater>(prepared_, {&tensor, 1}, detail::only_tensor);
        step_batch<Updater> const batch{prepared_, {&tensor, 1}, others.numbers.data(), others.by_number.data()};
        for_kernel_of<kernel_forms{.copies = false}>(
            prepared_, batch.scalars(0), tensor, tensor.id.value_or(0), tensor.step.value_or(this->number()),
            [&](auto const& kernel) { run_difference(kernel, to, [&] { return detail::row_pointers(tensor); }); });
    }

    /// Checks the buffers as `update` does, and returns a function without arguments that runs the
    /// step on them. A caller can roll back a rejected step until it calls the function. The
    /// function refers to the step and to the buffers.
    template <class W, class G, class... S> auto begin(std::uint64_t id, W& weight, G& gradient, S&... state) const {
        if constexpr (is_lazy<W, G>) {
            return [this, one = lazy_kernel(id, weight, gradient, state...)] { backend_.run(one); };
        } else {
            slice<Updater> tensor(detail::for_one_call{}, weight, gradient, state...);
            tensor.id = id;
            check(tensor);
            return [this, tensor] { update_checked(tensor); };
        }
    }
    /// The same for one slice.
    auto begin(slice<Updater> const& tensor) const {
        check(tensor);
        return [this, &tensor] { update_checked(tensor); };
    }
    /// Throws the errors that a step on this tensor throws before it writes anything. `number` is
    /// the tensor's number in a call with several tensors.
    GRADSTEP_INLINE void check(slice<Updater> const& x, std::size_t number = detail::only_tensor) const {
        detail::check_tensor(prepared_, x, number);
    }
    /// Runs the step on a tensor that has been checked, with the learning rate of the step. It
    /// ignores the tensor's rate_scale and step, and its decay unless that is 0.
    void update_checked(slice<Updater> const& tensor) const { run({prepared_, {&tensor, 1}}); }

    /// Returns one checked tensor in the form that backends run, for code that splits a call
    /// itself, as a model does: `backend.run_part(batch, first, last)`. The batch refers to the
    /// step and to the tensor. It uses the learning rate of the step, and ignores the tensor's
    /// rate_scale and step, and its decay unless that is 0. (Pass rate scale and decay to
    /// `updater::next_step` instead.)
    step_batch<Updater> batch(slice<Updater> const& tensor) const {
        check(tensor);
        return {prepared_, {&tensor, 1}};
    }

private:
    template <class Here, class W, class G, class... S>
    void update_one(Here const&, std::uint64_t id, W& weight, G& gradient, S&... state) const {
        if constexpr (is_lazy<W, G>) {
            backend_.run(lazy_kernel(id, weight, gradient, state...));
        } else {
            slice<Updater> tensor(detail::for_one_call{}, weight, gradient, state...);
            tensor.id = id;
            check(tensor);
            if constexpr (is_inlined) run_inlined(tensor);
            else update_checked(tensor);
        }
    }
    // The buffers of a call as they are, for backends that run on the caller's thread: the loops
    // are inlined into the caller once more, which saves 3 ns on a few elements.
    static constexpr bool is_inlined = !row_wise_rule<rule_type> && requires {
        requires Updater::backend_type::runs_inline;
    };
    GRADSTEP_INLINE void run_inlined(slice<Updater> const& x) const {
        for_kernel_of<kernel_forms{.copies = false, .undecayed = false}>(
            prepared_, prepared_.own, x, *x.id, this->number(), [&](auto const& kernel) GRADSTEP_INLINE_LAMBDA {
                backend_.run(single{kernel, x.weight.size(), Updater::bytes_per_element});
            });
    }
    // Checks the buffers of a lazy gradient, whose layout its reader checks, and returns their
    // kernel.
    template <class W, class G, class... S>
    auto lazy_kernel(std::uint64_t id, W& weight, G& gradient, S&... state) const {
        static_assert(!row_wise_rule<rule_type>, "gradstep: row-wise rule: it reads the gradient twice, and a lazy one "
                                                 "can be read once; expected memory; evaluate it first");
        detail::tensor<Updater> const tensor(weight, state...);
        auto const reader = detail::traits_of<G>::reader(gradient, weight);
        tensor.check({"gradient", nullptr, detail::traits_of<G>::size(gradient), 0});
        if (prepared_.zero_gradient) detail::refuse_zero_gradient();
        if (!prepared_.decays) detail::refuse_decay(detail::only_tensor);
        using lazy = detail::lazy_gradient<std::remove_const_t<decltype(reader)>, compute>;
        return single{make_kernel<regularizer_type>(prepared_, prepared_.own, tensor, prepared_.own.regularizer,
                                                    lazy{reader, prepared_.gradient_scale}, id, this->number()),
                      tensor.weight.size(), Updater::bytes_per_element};
    }

    // Runs a kernel with its differences going to `out`. `rows` returns the row slots.
    template <class Kernel, class Rows = int>
    void run_difference(Kernel const& kernel, std::span<storage> out, [[maybe_unused]] Rows const& rows = {}) const {
        constexpr bool in_blocks = detail::in_blocks<traits>;
        static_assert(!in_blocks, "gradstep: step.difference: the state is kept in blocks (block8), whose steps write "
                                  "the parameter; expected float or another element");
        static_assert(
            std::is_same_v<typename Updater::backend_type::memory_space, host_memory>,
            "gradstep: step.difference: the backend runs on a device; expected serial_backend or simd_backend");
        if constexpr (!in_blocks) {
            single<detail::written_difference<Kernel>> const one{
                {{kernel, out.data(), 0}}, out.size(), Updater::bytes_per_element};
            if constexpr (row_wise_rule<rule_type>) backend_.run_row_wise(one, rows());
            else backend_.run(one);
        }
    }

    void run(step_batch<Updater> const& batch) const {
        if constexpr (row_wise_rule<rule_type>) {
            for (std::size_t k = 0; k < batch.count(); ++k) {
                slice<Updater> const& x = batch.tensors[k];
                batch.visit(k, [&](auto const& kernel) {
                    single<std::remove_cvref_t<decltype(kernel)>> const one{kernel, x.weight.size(), batch.bytes};
                    backend_.run_row_wise(one, detail::row_pointers(x));
                });
                detail::write_copy<Updater>(backend_, x);
            }
        } else {
            backend_.run(batch);
        }
    }
    prepared_step<Updater> prepared_;
    typename Updater::backend_type backend_;
};
} // namespace gradstep::inline GRADSTEP_ISA
