#pragma once
#include <gradstep/memory/buffer.hpp>
#include <gradstep/policy/hyperparameters.hpp>

namespace gradstep {
/// How the rows of an embedding bag are pooled.
enum class bag_mode {
    sum,  ///< adds the rows
    mean, ///< divides their sum by the number of ids in the bag, without padding
};
template <> inline constexpr std::array enumerators<bag_mode>{"sum", "mean"};
} // namespace gradstep

namespace gradstep::inline GRADSTEP_ABI {
/// The weights of a call with embedding bags: one number for each id, in your memory, which must
/// stay for the call. They are of the type in which the table adds gradients: double for tables of
/// double, else float.
class bag_weights {
public:
    bag_weights() = default;
    /// Refers to a buffer of float or double in host memory.
    template <detail::contiguous_buffer Buffer>
    requires(!std::is_same_v<std::remove_cvref_t<Buffer>, bag_weights>) bag_weights(Buffer const& buffer)
        : data_(detail::traits_of<Buffer>::data(buffer)), size_(detail::traits_of<Buffer>::size(buffer)) {
        using number = std::remove_const_t<detail::element_type<Buffer const>>;
        static_assert(std::is_same_v<number, float> || std::is_same_v<number, double>,
                      "gradstep: bag_options: the weights are of another type; expected float, or double for a table "
                      "of double");
        static_assert(detail::lives_in<Buffer, host_memory>,
                      "gradstep: bag_options: the weights are on a device; expected memory of the host");
        detail::require_layout(buffer, std::span<std::byte const>());
        element_bytes_ = sizeof(number);
    }

    /// The number of weights; 0 if there are none.
    std::size_t size() const { return size_; }
    /// The bytes of each weight; 0 if there are none.
    std::size_t element_bytes() const { return element_bytes_; }
    /// The memory.
    void const* data() const { return data_; }

private:
    void const* data_ = nullptr;
    std::size_t size_ = 0, element_bytes_ = 0;
};

/// The options of calls with embedding bags. Let bag b contain the ids at positions k, n of them
/// without padding, and w_k be their weights (1 without weights).
///
///     update: row ids[k] gets the gradient   w_k bag_rows[b]           (sum)
///                                            (w_k / n) bag_rows[b]     (mean)
///     bags:   out[b] =                       sum of w_k row[ids[k]]          (sum)
///                                            (sum of w_k row[ids[k]]) / n    (mean)
///
/// Products and sums are computed in the compute type, in ascending order of k. These are torch's
/// EmbeddingBag with padding_idx, and FBGEMM's pooling. The mean does not divide by the sum of the
/// weights. A weight that is NaN or infinite makes a gradient that is not finite.
struct bag_options {
    /// How rows are pooled.
    bag_mode mode = bag_mode::sum;
    /// One weight for each id; none: 1. Not for tables of integers.
    bag_weights weights = {};
};
} // namespace gradstep::inline GRADSTEP_ABI
