#pragma once
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/model/detail/step_driver.hpp>
#include <gradstep/rows/detail/aggregate.hpp>
#include <gradstep/runtime/detail/definitions.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// The sum of gradient rows in the compute type, rounded to the storage type.
template <class S>
void sum_rows(void const* gradients, std::uint32_t const* sources, std::size_t count, std::size_t width, void* out) {
    using compute = std::conditional_t<is_half<S>, float, S>;
    auto const* const from = static_cast<S const*>(gradients);
    auto const value = [&](std::size_t k, std::size_t i) { return compute(widen(from[sources[k] * width + i])); };
    for (std::size_t i = 0; i < width; ++i) {
        compute sum = value(0, i);
        for (std::size_t k = 1; k < count; ++k) {
            if constexpr (std::is_integral_v<S>)
                sum = static_cast<S>(static_cast<std::make_unsigned_t<S>>(sum) +
                                     static_cast<std::make_unsigned_t<S>>(value(k, i)));
            else sum += value(k, i);
        }
        static_cast<S*>(out)[i] = S(sum);
    }
}

// Memory that a call of any_parameter keeps for the next call.
struct parameter_scratch {
    std::vector<std::int64_t> ids;
    aggregator<std::int64_t> grouped;
    std::vector<std::vector<std::byte, line_allocator<std::byte>>> sums;
    step_driver driver; // for its own steps, and for calls of update_all whose first parameter it is
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
