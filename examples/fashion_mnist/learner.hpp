#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

struct network;

/// The memory of a training, in bytes.
struct footprint {
    std::size_t moved = 0;      // that a step reads and writes
    std::size_t state = 0;      // of the optimizer
    std::size_t parameters = 0; // and their gradients
    std::size_t kept() const { return parameters + state; }
    void operator+=(footprint const& other) {
        moved += other.moved, state += other.state, parameters += other.parameters;
    }
};

/// An optimizer attached to the parameters of a network, whatever its type is: the training loop is
/// compiled once, and without gradstep.
class learner {
public:
    virtual ~learner() = default;
    /// One step of all parameters by their gradients.
    virtual void step() = 0;
    /// Gives the network the parameters, where they are not its own.
    virtual void publish() {}
    /// Calls `judge` while the network has the weights that are to be judged: the last ones, or an
    /// average of them.
    virtual void evaluate(std::function<void()> const& judge) { judge(); }
    virtual void end_of_epoch() {}
    footprint const& memory() const { return memory_; }

protected:
    footprint memory_;
};

/// Attaches an optimizer for a training of so many steps, to the network of each trainer.
using make_learner = std::function<std::unique_ptr<learner>(std::span<network>, std::int64_t steps)>;
