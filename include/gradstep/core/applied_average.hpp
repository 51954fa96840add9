#pragma once
#include <utility>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// The time in which averages stand in the place of weights, as `apply_average` gives it: at its end the weights are back, bit
/// for bit, also where an exception ends it. `restore()` of the owner may bring them back earlier; after `dismiss()` only
/// that does. It refers to the owner, which must stay where it is.
template <class Owner> class applied_average {
public:
    explicit applied_average(Owner& owner) : owner_(&owner) {}
    applied_average(applied_average const&) = delete;
    applied_average& operator=(applied_average const&) = delete;
    ~applied_average() {
        if (owner_ != nullptr && owner_->average_is_applied()) owner_->restore();
    }
    /// Leaves the averages where they are.
    void dismiss() { owner_ = nullptr; }

private:
    Owner* owner_;
};

} // namespace GRADSTEP_ABI
} // namespace gradstep
