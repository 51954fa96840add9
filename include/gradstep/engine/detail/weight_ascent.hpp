#pragma once
#include <gradstep/engine/detail/memory_block.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// The values of a parameter before an ascent, and the work of its parts. A caller measures with
// ASAM, then keeps, then moves; `restore` takes the values back, bit for bit. On the host, all work
// except `make_room` can be done on parts of the elements, [first, last). The memory is kept for
// the next ascent.
class weight_ascent {
public:
    // Throws before anything is written.
    void make_room(kernels const& by, std::size_t n);
    void measure(kernels const& by, erased_tensor const& x, sam_options const& how, std::size_t first,
                 std::size_t last) {
        by.ascend(x, how, 0, kept_.data(), first, last);
    }
    // The sum of the squares of what `measure` has written.
    double squares(kernels const& by, double scale) const { return by.sum_of_squares(kept_.data(), size_, scale); }
    void keep(kernels const& by, erased_tensor const& x, std::size_t first, std::size_t last);
    void move(kernels const& by, erased_tensor const& x, sam_options const& how, double scale, std::size_t first,
              std::size_t last) {
        by.ascend(x, how, scale, nullptr, first, last);
    }
    void restore(kernels const& by, erased_tensor const& x, std::size_t first, std::size_t last);
    // Throws size_error if the parameter has another size than when it was kept.
    void require_size(std::size_t n) const;
    void const* kept() const { return kept_.data(); }

private:
    memory_block kept_;
    std::size_t size_ = 0;
};

// The trained values of a parameter while an average is in their place.
class replaced_values {
public:
    bool is_applied() const { return is_applied_; }
    void* trained() const { return trained_.data(); }
    std::size_t bytes() const { return trained_.bytes(); }
    // Keeps the trained values.
    void keep(memory_block trained) noexcept {
        trained_ = std::move(trained);
        is_applied_ = true;
    }
    memory_block take() noexcept {
        is_applied_ = false;
        return std::exchange(trained_, {});
    }

private:
    memory_block trained_;
    bool is_applied_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/weight_ascent.ipp>
#endif
