#pragma once
#include <gradstep/policy/concepts.hpp>
#include <gradstep/step/step_options.hpp>

// What a step checks before it writes anything. Functions named `refuse` throw.
namespace gradstep::detail::inline GRADSTEP_ABI {
// Throws value_error for options out of range, and if a clock at this step and number of samples
// cannot advance by the step.
void check_next(std::int64_t step, std::int64_t samples, step_options const& options, tensor_options const& own);
// Throws value_error unless the rate is finite and >= 0.
void check_rate(double rate);
// Throws value_error for a negative count.
void check_counts(clock at);
// The same for the clock of a rule that keeps these numbers in it. Throws value_error for a clock
// without them, and for numbers that are not finite and >= 0, or not finite if they `is_signed`.
void check_clock(clock const& at, std::span<char const* const> state_names, bool is_signed);
// Throws value_error for a decay or a step that a tensor cannot have.
void check_own(std::size_t tensor, double decay, std::optional<std::int64_t> step);

[[noreturn]] void refuse_decay(std::size_t tensor);
[[noreturn]] void refuse_own_number(std::size_t tensor, std::int64_t step);
[[noreturn]] void refuse_missing_loss();
[[noreturn]] void refuse_settled(std::int64_t step);
[[noreturn]] void refuse_rate_scale(std::size_t tensor, double rate_scale);
[[noreturn]] void refuse_copy(std::size_t tensor, char const* why);
[[noreturn]] void refuse_fraction(char const* name, double x, double largest);
[[noreturn]] void refuse_magnitude(char const* name, double x, double largest);
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ISA {
template <class Rule> void check_clock_of(clock const& at) {
    if constexpr (keeps_clock_state<Rule>) check_clock(at, Rule::clock_state_names, clock_state_is_signed<Rule>());
    else check_counts(at);
}

// A number of the host in the type of the kernels. Throws value_error where a double would become
// infinite, since that would turn zeros into NaN.
template <class T> [[gnu::noinline]] T as_compute(char const* name, double x) {
    constexpr auto largest = static_cast<double>(std::numeric_limits<T>::max());
    if constexpr (std::is_integral_v<T>) {
        if (std::abs(x) < largest && x == std::trunc(x)) return static_cast<T>(x);
        refuse_fraction(name, x, largest);
    }
    if (std::abs(x) <= largest) return static_cast<T>(x);
    refuse_magnitude(name, x, largest);
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

#if GRADSTEP_HEADER_ONLY
#include <gradstep/step/detail/step_checks.ipp>
#endif
