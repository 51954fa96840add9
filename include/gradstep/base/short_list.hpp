#pragma once
#include <algorithm>
#include <array>

#include <gradstep/base/compiler.hpp>
#include <gradstep/base/error.hpp>

namespace gradstep {
/// A list of at most `Capacity` numbers, which owns no memory: a policy with such a list is copied
/// as bytes, and so is every variant of policies. Throws size_error for more numbers.
///
///     gs::short_list<double, 16> list = {0.75, 0.9375};
///     list.push_back(0.99);
template <class T, std::size_t Capacity> class short_list {
public:
    using value_type = T; ///< the type of an item
    /// The largest number of items.
    static constexpr std::size_t capacity = Capacity;

    GRADSTEP_INLINE constexpr short_list() = default;
    GRADSTEP_INLINE constexpr short_list(std::initializer_list<T> items) { assign(items.begin(), items.size()); }
    /// The items of another list, such as a std::vector.
    template <class List>
    requires requires(List const& items) { items.data(), items.size(); }
    GRADSTEP_INLINE constexpr short_list(List const& items) { assign(items.data(), items.size()); }

    /// The number of items.
    GRADSTEP_INLINE constexpr std::size_t size() const { return size_; }
    /// Whether there are none.
    GRADSTEP_INLINE constexpr bool empty() const { return size_ == 0; }
    /// The first item.
    GRADSTEP_INLINE constexpr T const* begin() const { return items_.data(); }
    /// Behind the last item.
    GRADSTEP_INLINE constexpr T const* end() const { return items_.data() + size_; }
    /// Item i < size().
    GRADSTEP_INLINE constexpr T const& operator[](std::size_t i) const { return items_[i]; }
    GRADSTEP_INLINE constexpr T& operator[](std::size_t i) { return items_[i]; }
    /// The last item, of at least one.
    GRADSTEP_INLINE constexpr T const& back() const { return items_[size_ - 1]; }
    /// Adds an item. Throws size_error if the list is full.
    GRADSTEP_INLINE constexpr void push_back(T item) {
        require_room(size_ + 1);
        items_[size_++] = item;
    }
    GRADSTEP_INLINE friend constexpr bool operator==(short_list const& a, short_list const& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    GRADSTEP_INLINE static constexpr void require_room(std::size_t n) {
        if (n > Capacity) detail::fail<size_error>({"a list"}, {"has length ", n}, {"at most ", Capacity});
    }
    GRADSTEP_INLINE constexpr void assign(T const* from, std::size_t n) {
        require_room(n);
        std::copy_n(from, n, items_.data());
        size_ = n;
    }

    std::size_t size_ = 0;
    std::array<T, Capacity> items_ = {};
};
} // namespace gradstep
