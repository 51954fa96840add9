#pragma once
#include <span>

#include <gradstep/base/error.hpp>

namespace gradstep {
/// The order of the elements of a matrix in memory.
enum class memory_order {
    row_major,    ///< rows are contiguous, as in C and NumPy
    column_major, ///< columns are contiguous, as in Fortran, and in Eigen by default
};

/// The shape of a parameter that is a matrix, for rules that use it (`muon`, `adafactor`). Other
/// rules ignore it, and checkpoints contain it.
///
///     gs::parameter weights{optimizer, initial, {.shape = {512, 256}}};
///     gs::slice<decltype(optimizer)> x{w, g, m};
///     x.shape = {512, 256};
///
/// `rows` is the number of outputs of a linear layer and `cols` the number of its inputs, as in
/// torch. xtensor and Eigen containers have their shape. The shape {0, 0} means that it is not
/// known.
struct shape {
    std::size_t rows = 0, cols = 0;
    memory_order order = memory_order::row_major;

    /// Whether the shape is known.
    GRADSTEP_INLINE constexpr bool is_known() const { return rows != 0 || cols != 0; }
    /// Whether it has n elements.
    GRADSTEP_INLINE bool has(std::size_t n) const {
        if (rows == 0 || cols == 0) return n == 0;
        return n % rows == 0 && n / rows == cols;
    }
    /// The number of rows of the same memory, read row by row.
    GRADSTEP_INLINE std::size_t memory_rows() const { return order == memory_order::row_major ? rows : cols; }
    /// The number of its columns.
    GRADSTEP_INLINE std::size_t memory_cols() const { return order == memory_order::row_major ? cols : rows; }

    /// The shape of a tensor with these extents in row-major order. All dimensions after the first
    /// one are joined, as Keller Jordan's muon.py does with the filters of a convolution: {64, 3,
    /// 7, 7} is 64 x 147. Fewer than two dimensions are no matrix: the shape is not known.
    GRADSTEP_INLINE static shape of(std::span<std::uint64_t const> extents) {
        if (extents.size() < 2) return {};
        shape out{static_cast<std::size_t>(extents[0]), 1};
        for (std::uint64_t const extent : extents.subspan(1)) out.cols *= static_cast<std::size_t>(extent);
        return out;
    }
    friend bool operator==(shape const&, shape const&) = default;
};
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
inline std::string text_of(shape const& x) { return text(x.rows) + " x " + text(x.cols); }

// Throws size_error if a known shape has another number of elements.
inline void require_elements(char const* what, shape const& x, std::size_t n) {
    if (x.is_known() && !x.has(n))
        fail<size_error>({what}, {text_of(x), " for ", n, " elements"}, {"a shape with as many elements"});
}

// The shape of updaters whose rule ignores it: it costs nothing.
struct ignored_shape {
    ignored_shape() = default;
    GRADSTEP_INLINE ignored_shape& operator=(gradstep::shape const&) { return *this; }
    GRADSTEP_INLINE operator gradstep::shape() const { return {}; }
};
// The shape of a slice: the one that was set, or else the shape of the parameter's container.
class slice_shape {
public:
    slice_shape() = default;
    GRADSTEP_INLINE slice_shape& operator=(gradstep::shape const& given) {
        shape_ = given;
        is_given_ = given.is_known();
        return *this;
    }
    GRADSTEP_INLINE operator gradstep::shape() const { return shape_; }
    // Takes the shape that the container has now.
    GRADSTEP_INLINE void follow(gradstep::shape const& now) const {
        if (!is_given_) shape_ = now;
    }

private:
    mutable gradstep::shape shape_ = {};
    bool is_given_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI
