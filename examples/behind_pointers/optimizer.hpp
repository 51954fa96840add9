// An optimizer for programs that are not C++20: this header is C++11, and includes no header of
// gradstep.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

// [interface]
class optimizer {
public:
    explicit optimizer(std::string const& config); // JSON; throws std::exception
    ~optimizer();

    // Adds a tensor in your memory. The state lies in the optimizer.
    void add(float* weights, float const* gradient, std::size_t size);
    void step(); // of all tensors

private:
    struct implementation; // in optimizer.cpp
    std::unique_ptr<implementation> own_;
};
// [interface]
