#pragma once
#include <gradstep/engine/detail/kernels.hpp>

namespace gradstep::detail {
// The entries of a message for one tensor, as they follow the header of a sparse_message in memory.
struct erased_message {
    std::byte const* body = nullptr;
    std::size_t count = 0;
};

// The second interface of kernels whose prepared step has two halves (dgc_momentum): a trainer
// makes a message, and applies the messages of all trainers. Like `kernels`, it does not depend on
// an instruction set, and defines no function.
//
// Each half has two calls. `begin_*` allocates all memory, and can throw; nothing has been written
// then. The other call throws only what threads and devices throw. The memory of tensors and
// messages must not change in between.
class compression_kernels {
public:
    // Whether the step is dense for a tensor of n elements, and the number of trainers.
    virtual bool is_dense(std::size_t n) const noexcept = 0;
    virtual std::int64_t trainers() const noexcept = 0;

    virtual void begin_message(erased_tensor const&) = 0;
    // The caller owns the body of the message, and frees it by delete[].
    virtual erased_message message() = 0;
    virtual void begin_apply(erased_tensor const&, std::span<erased_message const>) = 0; // of all, validated
    virtual void apply() = 0;
    // Frees the memory of a half that has begun.
    virtual void end_half() noexcept = 0;

protected:
    ~compression_kernels() = default;
};
} // namespace gradstep::detail
