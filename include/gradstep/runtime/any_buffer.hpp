#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <gradstep/backends/host_buffer.hpp>
#include <gradstep/core/kernel.hpp>
#include <gradstep/io/state_visitor.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep {
inline namespace GRADSTEP_ISA {
namespace detail {

inline char const* dtype_of(scalar type) {
    return with_type(type, []<class T>() { return dtype_of<T>(); });
}

// Memory for numbers of a type that is known at run time.
class any_buffer {
public:
    any_buffer() = default;
    any_buffer(scalar type, std::size_t count) : type_(type), count_(count), bytes_(count * size_of(type)) {}
    void* data() { return bytes_.data(); }
    any_span view() const { return {type_, static_cast<void const*>(bytes_.data()), count_}; }

private:
    scalar type_ = scalar::float32;
    std::size_t count_ = 0;
    std::vector<std::byte, line_allocator<std::byte>> bytes_;
};

// The sum of gradient rows, in the type of the arithmetic, rounded to that of the storage.
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

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
