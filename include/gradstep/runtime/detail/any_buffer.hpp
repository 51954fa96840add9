#pragma once
#include <gradstep/kernel/kernel.hpp>
#include <gradstep/memory/detail/host_buffer.hpp>
#include <gradstep/runtime/any_span.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Memory for numbers whose type is known at run time. It owns the memory, or refers to the caller's
// memory.
class any_buffer {
public:
    any_buffer() = default;
    any_buffer(scalar type, std::size_t count) : type_(type), count_(count), bytes_(count * size_of(type)) {}
    // Refers to memory that the caller keeps.
    static any_buffer referring_to(any_span const& memory) {
        any_buffer out;
        out.type_ = memory.type;
        out.count_ = memory.size;
        out.of_another_ = const_cast<void*>(memory.data);
        out.refers_ = true;
        return out;
    }
    bool refers() const { return refers_; }
    void* data() { return refers_ ? of_another_ : bytes_.data(); }
    any_span view() const { return {type_, refers_ ? of_another_ : static_cast<void const*>(bytes_.data()), count_}; }

private:
    scalar type_ = scalar::float32;
    std::size_t count_ = 0;
    std::vector<std::byte, line_allocator<std::byte>> bytes_;
    void* of_another_ = nullptr;
    bool refers_ = false;
};

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
} // namespace gradstep::detail::inline GRADSTEP_ABI
