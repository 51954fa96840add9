#pragma once
#include <utility>

#include <gradstep/base/compiler.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The scope in which averages replace the weights, returned by `apply_average`. When it ends, also
/// by an exception, the weights are restored bit for bit. The owner's `restore()` can restore them
/// earlier; after `dismiss()` only `restore()` does. It refers to the owner, which must not move.
template <class Owner> class applied_average {
public:
    explicit applied_average(Owner& owner) : owner_(&owner) {}
    applied_average(applied_average const&) = delete;
    applied_average& operator=(applied_average const&) = delete;
    ~applied_average() {
        if (owner_ != nullptr && owner_->average_is_applied()) owner_->restore();
    }
    /// Leaves the averages in place.
    void dismiss() { owner_ = nullptr; }

private:
    Owner* owner_;
};
} // namespace gradstep::inline GRADSTEP_ABI
