#pragma once
#include <gradstep/clipping/nonfinite.hpp>
#include <gradstep/kernel/batch.hpp>
#include <gradstep/policy/zero_gradient.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// The first element of the gradient that is not finite, if the options of its parameter, which has
// `size` elements, leave the step out for it. Throws nonfinite_error under `raise`.
template <class Backend, class G>
std::optional<std::size_t> refused_nonfinite(Backend const& backend, nonfinite wanted, G const& gradient,
                                             std::size_t size) {
    if (wanted == nonfinite::propagate) return {};
    if constexpr (contiguous_buffer<G>) {
        if (traits_of<G const>::size(gradient) != size) return {}; // the step refuses it
        auto const found = first_nonfinite(backend, gradient);
        if (!found) return {};
        if (wanted == nonfinite::skip) return found->index;
        fail<nonfinite_error>({"gradient[", found->index, "]"},
                              {"is not finite, and on_nonfinite is raise: the step is not taken"});
    } else {
        fail<buffer_error>({"gradient"}, {"is lazy, and on_nonfinite looks at it before the step"}, {"memory"});
    }
}

// What zero_gradient asks for if the step is not taken.
template <class Storage, class Backend, class G> void zero_refused(Backend const& backend, G& gradient) {
    if constexpr (!contiguous_buffer<G>) refuse_zero_gradient();
    else if constexpr (std::is_const_v<element_type<G>>) refuse_zero_gradient();
    else fill(backend, as_span<Storage, typename Backend::memory_space>(gradient), Storage(0));
}
} // namespace gradstep::detail::inline GRADSTEP_ISA
