#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void weight_ascent::make_room(kernels const& by, std::size_t n) {
    if (by.facts().is_integer)
        fail<value_error>({"ascend"}, {"integers hold counts, which have no direction"}, {"floating-point elements"});
    if (size_ == n && kept_.data() != nullptr) return;
    kept_ = memory_block(by.memory(), n * by.facts().storage_bytes);
    size_ = n;
}

GRADSTEP_DEFINE void weight_ascent::keep(kernels const& by, erased_tensor const& x, std::size_t first,
                                         std::size_t last) {
    std::size_t const each = by.facts().storage_bytes;
    by.copy_memory(static_cast<std::byte const*>(x.weight) + first * each, kept_.at(first * each),
                   (last - first) * each);
}

GRADSTEP_DEFINE void weight_ascent::restore(kernels const& by, erased_tensor const& x, std::size_t first,
                                            std::size_t last) {
    std::size_t const each = by.facts().storage_bytes;
    by.copy_memory(kept_.at(first * each), static_cast<std::byte*>(x.weight) + first * each, (last - first) * each);
}

GRADSTEP_DEFINE void weight_ascent::require_size(std::size_t n) const {
    if (size_ != n) fail<size_error>({"descend"}, {"there are ", n, " elements"}, {size_, ", as many as at ascend()"});
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
