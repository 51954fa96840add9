#pragma once
#include <vector>

#include <gradstep/clipping/detail/gradients.hpp>
#include <gradstep/number/detail/reduce.hpp>
#include <gradstep/policy/parameter_options.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// Whether all of x are finite, with packs V.
template <pack V, class S> bool all_finite(std::span<S const> x) {
    using T = typename pack_traits<V>::value_type;
    constexpr std::size_t lanes = pack_traits<V>::size;
    auto const is_finite = [](auto v) { return math::abs(v) <= decltype(v)(largest_number<T>); }; // false for NaN
    std::size_t i = 0;
    if (x.size() >= lanes) {
        auto finite = is_finite(pack_traits<V>::load(x.data(), all_lanes{}));
        for (i = lanes; i + lanes <= x.size(); i += lanes)
            finite = finite & is_finite(pack_traits<V>::load(x.data() + i, all_lanes{}));
        if (!math::all<V>(finite)) return false;
    }
    for (; i < x.size(); ++i)
        if (!is_finite(static_cast<T>(widen(x[i])))) return false;
    return true;
}

// The number of the first element of x that is not finite; x.size() if all are finite. Tests whole
// blocks first.
template <pack V, class S> std::size_t find_nonfinite(std::span<S const> x) {
    using T = typename pack_traits<V>::value_type;
    if constexpr (std::is_floating_point_v<T>) { // an integer is finite
        for (std::size_t first = 0; first < x.size(); first += block_size) {
            auto const block = x.subspan(first, std::min(block_size, x.size() - first));
            if (all_finite<V>(block)) continue;
            std::size_t i = 0;
            while (all_finite<T>(block.subspan(i, 1))) ++i;
            return first + i;
        }
    }
    return x.size();
}

// Whether the backend reads gradients with packs, on its threads.
template <class Backend> concept reads_in_parts = requires(Backend const& backend) {
    typename Backend::template pack<float>;
    backend.parts_for(std::size_t());
    backend.for_each_part(1, [](std::size_t) {});
};

template <class Backend, class S> std::size_t find_nonfinite(Backend const& backend, std::span<S const> x) {
    if constexpr (requires { backend.find_nonfinite(x); }) {
        return backend.find_nonfinite(x);
    } else if constexpr (!reads_in_parts<Backend>) {
        require_reads<Backend>();
        return find_nonfinite<decltype(widen(S()))>(x);
    } else {
        using packs = typename Backend::template pack<decltype(widen(S()))>;
        std::size_t const parts = backend.parts_for(x.size_bytes());
        std::vector<std::size_t> found(parts, x.size());
        backend.for_each_part(parts, [&](std::size_t p) {
            std::size_t const first = p * x.size() / parts, last = (p + 1) * x.size() / parts;
            std::size_t const at = find_nonfinite<packs>(x.subspan(first, last - first));
            if (at != last - first) found[p] = first + at;
        });
        return *std::min_element(found.begin(), found.end());
    }
}

// Visits gradients in the same order as sum_of_squares; `tensor` counts them.
template <class Backend, class Buffer>
std::optional<nonfinite_element> find_nonfinite_in(Backend const& backend, Buffer const& gradient,
                                                   std::size_t& tensor) {
    if constexpr (has_gradient<Buffer>) {
        return find_nonfinite_in(backend, gradient_of(gradient), tensor);
    } else if constexpr (has_gradients<Buffer>) {
        for (auto const& one : gradient)
            if (auto const found = find_nonfinite_in(backend, one, tensor)) return found;
        return {};
    } else if constexpr (require_contiguous<Buffer const>()) {
        auto const x = checked_gradient<Backend>(gradient);
        std::size_t const index = find_nonfinite(backend, x), number = tensor++;
        if (index == x.size()) return {};
        return nonfinite_element{number, index};
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ISA

namespace gradstep::inline GRADSTEP_ISA {
/// Finds the first NaN or infinity in gradients. The arguments are as for `global_norm`; tensors
/// are counted through all of them. Reads the gradients once. On a device it waits for the result.
/// Throws buffer_error for null.
template <class Backend, class First, class... Rest>
std::optional<nonfinite_element> first_nonfinite(Backend const& backend, First const& first, Rest const&... rest) {
    std::size_t tensor = 0;
    std::optional<nonfinite_element> found = detail::find_nonfinite_in(backend, first, tensor);
    ((found = found ? found : detail::find_nonfinite_in(backend, rest, tensor)), ...);
    return found;
}
} // namespace gradstep::inline GRADSTEP_ISA

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
} // namespace gradstep::detail::inline GRADSTEP_ISA
