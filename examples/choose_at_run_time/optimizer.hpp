#pragma once
// What the framework sees: a class to hold by pointer, and no header of gradstep, so that whoever
// includes it compiles none, and may have another -march.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

// [interface]
struct tensor {
    float* weight;
    float const* gradient;
    float* const* state; // one pointer for each slot
    std::size_t size;
};

class optimizer {
public:
    virtual ~optimizer() = default;
    virtual std::span<char const* const> slot_names() const = 0;
    virtual std::size_t slot_size(std::size_t slot, std::size_t n) const = 0; // of a tensor of n elements
    virtual void initialize(std::span<tensor const> tensors) const = 0;
    virtual void step(std::span<tensor const> tensors, double rate) = 0;
    virtual std::int64_t steps() const = 0;
    virtual void resume_after(std::int64_t steps) = 0;
};
// [interface]

struct settings {
    double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
};

// Each in a file of its own.
std::unique_ptr<optimizer> make_adamw(settings const& given);
std::unique_ptr<optimizer> make_momentum(settings const& given);
std::unique_ptr<optimizer> make_rowwise_adagrad(settings const& given);
