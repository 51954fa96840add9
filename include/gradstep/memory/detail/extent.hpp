#pragma once
#include <array>
#include <span>

#include <gradstep/base/error.hpp>

// The memory of the buffers of a call, and checks of their lengths and overlaps.
namespace gradstep::detail::inline GRADSTEP_ABI {
// One buffer of a call, for the checks; 0 bytes if it has no memory.
struct extent {
    char const* name;
    void const* data;
    std::size_t size, bytes;

    // The number of bytes of these elements. Numbers above the largest possible memory are all the
    // same, and do not wrap around.
    template <class T> static constexpr std::size_t bytes_of(std::span<T> x) {
        return x.size() > most_bytes / sizeof(T) ? most_bytes + 1 : x.size_bytes();
    }
    static constexpr std::size_t most_bytes = PTRDIFF_MAX;
    template <class T> GRADSTEP_INLINE static extent of(char const* name, std::span<T> x) {
        return {name, x.data(), x.size(), bytes_of(x)};
    }

    GRADSTEP_INLINE bool is_missing() const { return bytes != 0 && data == nullptr; }
    GRADSTEP_INLINE bool overlaps(extent const& other) const {
        auto const a = reinterpret_cast<std::uintptr_t>(data), b = reinterpret_cast<std::uintptr_t>(other.data);
        return b - a < bytes || a - b < other.bytes; // unsigned: a negative distance is large
    }
};

// The number of a tensor in a call with only one.
inline constexpr std::size_t only_tensor = static_cast<std::size_t>(-1);

// "tensor 5: gradient", or "gradient" if the call has only one tensor.
inline std::string buffer_name(std::size_t tensor, char const* name) {
    return (tensor == only_tensor ? "" : "tensor " + text(tensor) + ": ") + name;
}

[[noreturn]] inline void refuse_zero_gradient(std::size_t tensor = only_tensor) {
    detail::fail<buffer_error>({buffer_name(tensor, "gradient")}, {"is const or lazy, and zero_gradient is set"},
                               {"writable memory"});
}

// Throws the error for buffers that are null, overlapping, or of different lengths.
template <std::same_as<extent> Extent> // so that only files with checks compile it
[[noreturn, gnu::noinline, gnu::cold]] void refuse(Extent const* buffers, std::size_t count, std::size_t tensor) {
    std::size_t const n = buffers[0].size;
    for (std::size_t i = 0; i < count; ++i) {
        extent const& b = buffers[i];
        if (b.size != n)
            detail::fail<size_error>({buffer_name(tensor, b.name)},
                                     {"has ", b.size, " elements, ", buffers[0].name, " has ", n},
                                     {"the same length for all buffers of a tensor"});
        if (b.bytes > extent::most_bytes)
            detail::fail<size_error>({buffer_name(tensor, b.name)}, {"has ", b.size, " elements"},
                                     {"at most ", extent::most_bytes, " bytes"});
        if (b.bytes != 0 && b.data == nullptr)
            detail::fail<buffer_error>({buffer_name(tensor, b.name)}, {"is null"}, {n, " elements of memory"});
        for (std::size_t k = 0; k < i; ++k)
            if (b.overlaps(buffers[k]))
                detail::fail<buffer_error>({buffer_name(tensor, b.name)}, {"overlaps ", buffers[k].name},
                                           {"separate memory for each buffer"});
    }
    detail::fail<buffer_error>({buffer_name(tensor, buffers[0].name)}, {"cannot be used"},
                               {"separate memory for each buffer"});
}

// Throws size_error or buffer_error unless all buffers have the first one's length, none is null or
// longer than memory can be, and none overlap. It runs for every tensor of every step: the check is
// inlined, the rest is not.
template <std::size_t N> GRADSTEP_INLINE void check_extents(std::array<extent, N> const& buffers, std::size_t tensor) {
    auto const overlapped = [&]<std::size_t... K>(std::size_t i, std::index_sequence<K...>) {
        return ((K < i && buffers[i].overlaps(buffers[K])) || ...);
    };
    bool const fit = [&]<std::size_t... I>(std::index_sequence<I...> all) {
        return ((buffers[I].size == buffers[0].size && buffers[I].bytes <= extent::most_bytes &&
                 !buffers[I].is_missing() && !overlapped(I, all)) &&
                ...);
    }
    (std::make_index_sequence<N>{});
    if (!fit) refuse(buffers.data(), N, tensor);
}
// The same for one more buffer beside others, which have been checked and are of n elements
// whatever they say.
[[gnu::noinline]] inline void check_beside(std::span<extent const> checked, extent const& buffer, std::size_t n,
                                           std::size_t tensor) {
    for (extent other : checked) {
        other.size = n;
        check_extents(std::array{other, buffer}, tensor);
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
