#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace gradstep {
/// A factor that multiplies the decay of one tensor: 1 or true keeps the regularizer's decay, 0 or
/// false removes it, 0.5 halves it. Finite and >= 0.
class decay_factor {
public:
    constexpr decay_factor() = default;
    template <class Number>
    requires(std::is_convertible_v<Number, double> &&
             !std::same_as<std::remove_cvref_t<Number>, decay_factor>) constexpr decay_factor(Number const& factor)
        : value_(static_cast<double>(factor)) {
        if (value_ == 0) value_ = 0; // -0 becomes 0
    }
    /// The factor.
    constexpr operator double() const { return value_; }
    /// Whether the factor is 0. Compares bits.
    constexpr bool is_zero() const { return std::bit_cast<std::uint64_t>(value_) == 0; }
    /// Whether the factor is 1. Compares bits, which is fast enough to do for every tensor of a
    /// step.
    constexpr bool is_one() const { return std::bit_cast<std::uint64_t>(value_) == std::bit_cast<std::uint64_t>(1.0); }

private:
    double value_ = 1;
};
} // namespace gradstep
