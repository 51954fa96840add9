#pragma once
#include <gradstep/step/detail/rate_numbers.hpp>
#include <gradstep/step/prepared_step.hpp>

// What every kind of step does with the tensors of a call around its kernels: it checks them,
// prepares the scalars of tensors with their own numbers, and writes copies.
namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Updater> extent extent_of_gradient(slice<Updater> const& x) {
    return extent::of<typename Updater::traits::storage const>("gradient", x.gradient);
}

template <class Updater> void check_copy(slice<Updater> const& x, std::size_t number) {
    if constexpr (!std::is_same_v<typename Updater::traits::storage, float>)
        refuse_copy(number, "the parameter is not kept in float");
    else x.check_beside("bfloat16_copy", x.bfloat16_copy, extent_of_gradient<Updater>(x), number);
}

// Whether the step's own scalars serve the decay of a tensor.
template <class Slice> bool has_plain_decay(Slice const& x) { return x.decay.is_one() || x.decay.is_zero(); }

// Throws the errors that a step on this tensor throws before it writes anything. `number` is the
// tensor's number in a call with several tensors.
template <class Updater>
GRADSTEP_INLINE void check_tensor(prepared_step<Updater> const& step, slice<Updater> const& x, std::size_t number) {
    x.check_buffers(number);
    if (step.zero_gradient && !x.gradient_is_writable) refuse_zero_gradient(number);
    if (!step.decays && !x.decay.is_zero()) refuse_decay(number);
    if (!x.bfloat16_copy.empty()) check_copy<Updater>(x, number);
    if (!ranges::non_negative.contains(x.rate_scale)) refuse_rate_scale(number, x.rate_scale);
    if (!has_plain_decay(x) || x.step) check_own(number, x.decay, x.step);
}

// The scalars of the tensors of a call that have their own rate_scale, decay or step.
template <class Updater> struct own_scalars {
    std::vector<std::uint32_t> numbers; // of every tensor; 0: the step's own. Empty if all have those
    std::vector<step_scalars<Updater>> by_number;
};
// For tensors that have been checked. Error messages number them from `first`.
template <class Updater>
own_scalars<Updater> prepare_own_scalars(prepared_step<Updater> const& step, std::span<slice<Updater> const> tensors,
                                         std::size_t first) {
    own_scalars<Updater> out;
    rate_numbers numbers;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        slice<Updater> const& x = tensors[k];
        if (x.rate_scale == 1 && has_plain_decay(x) && !x.step) continue;
        if constexpr (keeps_clock_state<typename Updater::rule_type>)
            if (x.step) refuse_own_number(first == only_tensor ? first : first + k, *x.step);
        std::int64_t const t = x.step.value_or(step.now.t);
        auto const [number, is_new] = numbers.of(x.rate_scale, x.decay, t);
        if (is_new) out.by_number.push_back(step.scalars(x.rate_scale, x.decay, t));
        if (out.numbers.empty()) out.numbers.resize(tensors.size());
        out.numbers[k] = number;
    }
    return out;
}

// Writes a tensor's copy in bfloat16, if it has one, behind rules that read a tensor more than once
// in any case. Other rules write it in their kernel.
template <class Updater>
void write_copy([[maybe_unused]] typename Updater::backend_type const& backend,
                [[maybe_unused]] slice<Updater> const& x) {
    if constexpr (std::is_same_v<typename Updater::traits::storage, float>)
        if (!x.bfloat16_copy.empty())
            run_single(backend, rounding_kernel{x.weight.data(), x.bfloat16_copy.data()}, x.weight.size(),
                       sizeof(float) + sizeof(bfloat16));
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
