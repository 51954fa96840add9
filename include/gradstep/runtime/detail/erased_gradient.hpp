#pragma once
#include <gradstep/engine/detail/norm_limit.hpp>
#include <gradstep/runtime/compiled_updater.hpp>
#include <gradstep/runtime/detail/definitions.hpp>

namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI {
// A gradient whose type is known at run time, as gradient_norms reads it: by the compiled code of
// an updater of its dtype. If its limit is adaptive, `memory` also has the weights.
class erased_gradient {
public:
    erased_gradient(runtime::erased_tensor const& memory, runtime::compiled_updater const& by,
                    norm_limit const& limit = {})
        : memory_(&memory), by_(&by), limit_(limit) {}
    double block_sum(std::size_t block, double scale) const { return sum_of(memory_->gradient, block, scale); }
    double weight_block_sum(std::size_t block, double scale) const { return sum_of(memory_->weight, block, scale); }
    double sum_of_squares(double) const { return 0; } // it is read in chunks
    norm_limit own_limit() const { return limit_; }
    bool reads_in_chunks() const { return true; }
    std::size_t size() const { return memory_->size; }
    std::size_t bytes_per_element() const { return size_of(by_->facts().storage); }

private:
    double sum_of(void const* x, std::size_t block, double scale) const {
        return by_->block_sum(x, size(), block, scale);
    }

    runtime::erased_tensor const* memory_;
    runtime::compiled_updater const* by_;
    norm_limit limit_;
};
} // namespace gradstep::detail::inline GRADSTEP_RUNTIME_ABI
