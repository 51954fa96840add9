#pragma once
#include <sstream>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

#include <gradstep/base/error.hpp>
#include <gradstep/memory/executor.hpp>
#include <gradstep/number/scalar.hpp>

// Tensors and threads of torch, as a step uses them.
namespace gradstep::detail::libtorch::inline GRADSTEP_ABI {
using at::Tensor;

// torch's threads. at::parallel_for in a program's own file needs the OpenMP runtime that torch is
// linked to, and is serial without -fopenmp; TensorIterator runs it in torch's library.
struct torch_threads {
    std::size_t concurrency() const {
        return at::in_parallel_region() ? 1 : static_cast<std::size_t>(at::get_num_threads());
    }
    void run(std::size_t parts, task work) const {
        Tensor numbers = at::empty({static_cast<std::int64_t>(parts)}, at::kByte);
        auto const* const first = static_cast<char const*>(numbers.data_ptr());
        at::TensorIterator each = at::TensorIterator::nullary_op(numbers);
        each.for_each(
            [&](char** data, std::int64_t const* strides, std::int64_t columns, std::int64_t rows) {
                for (std::int64_t row = 0; row < rows; ++row)
                    for (std::int64_t column = 0; column < columns; ++column)
                        work(static_cast<std::size_t>(data[0] - first + column * strides[0] + row * strides[1]));
            },
            1);
    }
};

enum class sparse_gradients { refused, refused_with_decay, rows, as_dense };

// A dtype that updaters have.
struct element {
    at::ScalarType type;
    scalar of;
};
inline constexpr std::array elements{element{at::kFloat, scalar::float32}, element{at::kDouble, scalar::float64},
                                     element{at::kHalf, scalar::float16}, element{at::kBFloat16, scalar::bfloat16}};
inline constexpr char const* elements_text = "Float, Double, Half or BFloat16";

inline at::ScalarType type_of(scalar of) {
    return std::find_if(elements.begin(), elements.end(), [&](element const& x) { return x.of == of; })->type;
}
inline std::size_t index_of_element(at::ScalarType type) {
    auto const found = std::find_if(elements.begin(), elements.end(), [&](element const& x) { return x.type == type; });
    return static_cast<std::size_t>(found - elements.begin());
}

inline std::string group_name(std::size_t group) { return "group " + detail::text(group); }
// The path of a tensor in an error: a parameter, and one of its tensors. The text is made when it
// is needed, since every step has these paths.
struct tensor_path {
    std::size_t group, position;
    char const* what = "";
    char const* slot = "";
    std::string text() const { return "parameter " + detail::text(position) + " of " + group_name(group); }
    std::string subject() const { return *slot == 0 ? what : std::string(what) + " " + slot; }
};
inline std::string text_of(at::IntArrayRef sizes) {
    std::string out = "(";
    for (std::size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? "" : ", ") + detail::text(sizes[i]);
    return out + ")";
}
inline std::string text_of(at::ScalarType type) { return c10::toString(type); }

// Memory.

// Whether an address of `x` serves for memory like the memory of `like`, which is dense.
inline bool fits(Tensor const& x, Tensor const& like, at::ScalarType type) {
    return x.scalar_type() == type && x.layout() == at::kStrided && x.is_cpu() && !x.is_neg() &&
           x.sizes() == like.sizes() && (x.strides() == like.strides() || (x.is_contiguous() && like.is_contiguous()));
}
inline Tensor empty_like(Tensor const& x, at::ScalarType type) { return at::empty_like(x, x.options().dtype(type)); }
inline bool is_empty(Tensor const& x) { return x.numel() == 0; }
inline std::size_t element_bytes(Tensor const& x) { return static_cast<std::size_t>(x.element_size()); }

// The bytes from the first element of a tensor to the end of its last one.
struct extent {
    char const* first;
    std::size_t bytes;
    bool is_written;

    static extent of(Tensor const& x, bool is_written) {
        std::int64_t reach = x.numel();
        if (!x.is_non_overlapping_and_dense()) {
            reach = 1;
            for (std::int64_t i = 0; i < x.dim(); ++i) reach += x.stride(i) * (x.size(i) - 1);
        }
        std::size_t const bytes = is_empty(x) ? 0 : static_cast<std::size_t>(reach) * element_bytes(x);
        return {static_cast<char const*>(x.data_ptr()), bytes, is_written};
    }
    bool overlaps(extent const& x) const { return first < x.first + x.bytes && x.first < first + bytes; }
};

// Throws buffer_error unless a tensor is strided, on the CPU, and has memory.
inline void require_memory(Tensor const& x, tensor_path const& here) {
    if (!x.is_cpu())
        detail::fail<buffer_error>({here.text()}, {here.subject(), " is on ", x.device().str()}, {"the CPU"});
    if (x.layout() != at::kStrided) {
        std::ostringstream layout;
        layout << x.layout();
        detail::fail<buffer_error>({here.text()}, {here.subject(), " has the layout ", layout.str()}, {"Strided"});
    }
    if (is_empty(x)) return;
    if (!x.has_storage() || x.data_ptr() == nullptr)
        detail::fail<buffer_error>({here.text()}, {here.subject(), " has no memory"},
                                   {"a tensor on the CPU that has its memory"});
    if (reinterpret_cast<std::uintptr_t>(x.data_ptr()) % element_bytes(x) != 0)
        detail::fail<buffer_error>(
            {here.text()}, {here.subject(), " is not aligned"},
            {"an address that is a multiple of ", element_bytes(x), ", the bytes of an element"});
    std::size_t const needed =
        static_cast<std::size_t>(x.storage_offset()) * element_bytes(x) + extent::of(x, false).bytes;
    if (x.storage().nbytes() < needed)
        detail::fail<buffer_error>({here.text()},
                                   {here.subject(), " has a storage of ", x.storage().nbytes(), " bytes"},
                                   {"at least ", needed, ", the end of its last element"});
}

// Throws buffer_error if elements of a parameter share memory. Its strides, from the smallest one,
// each have to be longer than what the smaller ones reach.
inline void require_apart(Tensor const& x, tensor_path const& here) {
    if (x.is_non_overlapping_and_dense() || is_empty(x)) return;
    std::vector<std::pair<std::int64_t, std::int64_t>> dimensions; // stride and size
    for (std::int64_t i = 0; i < x.dim(); ++i)
        if (x.size(i) > 1) dimensions.emplace_back(x.stride(i), x.size(i));
    std::sort(dimensions.begin(), dimensions.end());
    std::int64_t reach = 0;
    for (auto const& [stride, size] : dimensions) {
        if (stride <= reach)
            detail::fail<buffer_error>({here.text()}, {"its strides let elements share memory, as after expand()"},
                                       {"a clone()"});
        reach += stride * (size - 1);
    }
}
} // namespace gradstep::detail::libtorch::inline GRADSTEP_ABI
