#pragma once
#include <array>

#include <gradstep/number/pack.hpp>
#include <gradstep/policy/shape.hpp>

namespace gradstep {
/// The length of a slot of a factored rule.
enum class factor_length {
    rows,    ///< one number for each row of a matrix; none for a tensor without a shape
    columns, ///< one number for each column of a matrix; none for a tensor without a shape
    whole,   ///< one number for each element of a tensor without a shape; none for a matrix
};

/// A slot of a factored rule: its name, which can be in `state_names` of an updater, and its
/// length.
struct factor_slot {
    char const* name;
    factor_length length;

    /// The length for a tensor of n elements with this shape.
    GRADSTEP_INLINE constexpr std::size_t size(std::size_t n, shape const& of) const {
        switch (length) {
        case factor_length::rows:
            return of.rows;
        case factor_length::columns:
            return of.cols;
        case factor_length::whole:
            break;
        }
        return of.is_known() ? 0 : n;
    }
    /// The numbers that belong to a row of `width` elements of such a tensor; 0: none.
    GRADSTEP_INLINE constexpr std::size_t width_of_row(std::size_t width, shape const& of) const {
        if (length == factor_length::rows) return of.is_known() ? 1 : 0;
        return length == factor_length::columns || of.is_known() ? 0 : width;
    }
};

/// What a pass of a factored rule returns for each row and each column.
enum class factor_sum {
    none,    ///< nothing
    sum,     ///< the sum of `sums<V>::factor` over the elements
    maximum, ///< their maximum; they are >= 0
};
} // namespace gradstep

namespace gradstep::inline GRADSTEP_ISA {
/// An element, or a pack of elements, in a pass of a factored rule.
template <pack V, class State> struct factored_element {
    V stored;      ///< the weight before the regularizers of the step
    V w, g;        ///< weight and gradient after the regularizers that act before the rule
    State s;       ///< the elementwise slots
    V whole;       ///< without a shape: the slot of factor_length::whole
    V row, column; ///< of a matrix: the numbers of its row and column in `factored_work::values`
};

/// What an element adds to the sums of a pass, in double: to the sum of its row and the sum of its
/// column, and to two sums over the whole tensor.
template <pack W> struct factored_sums {
    W factor = W(0);
    std::array<W, 2> totals = {W(0), W(0)};
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ABI {
// A rule with slots for the rows and columns of a matrix (policy/concepts.hpp).
template <class R> concept has_factor_slots = requires { R::factor_slots.size(); };

template <class R> constexpr std::size_t count_factor_slots() {
    if constexpr (has_factor_slots<R>) return std::tuple_size_v<std::remove_cvref_t<decltype(R::factor_slots)>>;
    else return 0;
}
template <class R> constexpr std::span<factor_slot const> factor_slots_of() {
    if constexpr (has_factor_slots<R>) return R::factor_slots;
    else return {};
}

// The shape for which a tensor has slots of these lengths: length(i) is the length of factor slot
// i. A tensor without a shape has none for rows and columns.
template <class Length> gradstep::shape shape_of_factors(std::span<factor_slot const> slots, Length const& length) {
    gradstep::shape out;
    for (std::size_t i = 0; i != slots.size(); ++i) {
        if (slots[i].length == factor_length::rows) out.rows = length(i);
        if (slots[i].length == factor_length::columns) out.cols = length(i);
    }
    return out;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
