#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gradstep/model/named_gradient.hpp>
#include <gradstep/number/bfloat16.hpp>

#include "support/numbers.hpp"

/// Elements of the parameters of a model that trainers compress: of the weight, and of "bias" and
/// "other" each.
inline constexpr std::size_t many = 3000, few = 50;

/// Their gradients.
struct gradients {
    std::vector<float> weight, bias;
    std::vector<gradstep::bfloat16> other;

    explicit gradients(std::uint32_t seed)
        : weight(numbers<float>(many, seed)), bias(numbers<float>(few, seed + 1)),
          other(numbers<gradstep::bfloat16>(few, seed + 2)) {}
    std::vector<gradstep::named_gradient> named() { return {{"weight", weight}, {"bias", bias}, {"other", other}}; }
};
