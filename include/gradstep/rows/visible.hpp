#pragma once
#include <limits>
#include <vector>

#include <gradstep/base/compiler.hpp>
#include <gradstep/base/error.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The rows of a dense gradient that a step of a table updates: those whose element of the mask is
/// true. You can use it for several tables:
///
///     gs::visible const seen{mask};                  // one element for each row
///     means.update(seen, means_gradient);            // num_rows x width elements, in host memory
///     colors.update(seen, colors_gradient);
///
/// The mask is any range of values that convert to bool.
class visible {
public:
    /// Throws value_error for more than 2^32 - 1 rows.
    template <class Mask> explicit visible(Mask const& mask) {
        for (auto const& is_visible : mask) {
            if (is_visible) {
                ids_.push_back(static_cast<std::int64_t>(size_));
                sources_.push_back(static_cast<std::uint32_t>(size_));
            }
            ++size_;
        }
        if (size_ > std::numeric_limits<std::uint32_t>::max())
            detail::fail<value_error>({"visible"}, {"a mask of ", size_, " rows"}, {"at most 2^32 - 1"});
    }
    /// The length of the mask.
    std::size_t size() const { return size_; }
    /// The numbers of the visible rows, in ascending order.
    std::vector<std::int64_t> const& ids() const { return ids_; }
    /// The same, for gradstep's updates of rows: where each id has its gradient.
    std::uint32_t const* sources() const { return sources_.data(); }
    /// Throws size_error unless the mask has an element for each of these rows.
    void require_rows(std::uint64_t rows) const {
        if (size_ != rows) detail::fail<size_error>({"visible"}, {"the mask has ", size_, " elements"}, {rows});
    }

private:
    std::size_t size_ = 0;
    std::vector<std::int64_t> ids_;
    std::vector<std::uint32_t> sources_;
};
} // namespace gradstep::inline GRADSTEP_ABI
