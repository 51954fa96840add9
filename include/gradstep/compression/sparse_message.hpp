#pragma once
#include <algorithm>
#include <vector>

#include <gradstep/base/detail/uninitialized.hpp>
#include <gradstep/base/error.hpp>
#include <gradstep/bytes/detail/framed_bytes.hpp>
#include <gradstep/number/scalar.hpp>

namespace gradstep::inline GRADSTEP_ABI {
class sparse_message;
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// Whether a message can contain elements of this type.
template <class S> inline constexpr bool is_sent = has_scalar<S> && !std::is_integral_v<S>;

template <class T> constexpr scalar sent_type() {
    static_assert(
        is_sent<T>,
        "gradstep: sparse_message: the elements are of another type; expected float, double, bfloat16 or float16");
    return scalar_of<T>();
}
template <class T> constexpr std::string_view name_of_element() { return info_of(sent_type<T>()).element; }
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// The part of one tensor's gradient that a worker sends in one step. It contains the entries that
/// a compressed step has selected, with rising indices, or all entries if the step is dense.
/// `compress` makes messages, and so does `decode` from the bytes of `encode`. `apply` reads them.
/// A message owns host memory and can be copied and moved. A default-constructed message is empty;
/// no step accepts it.
///
/// The bytes. All numbers are little-endian:
///
///     0    8   the letters "gradstep"
///     8    1   version: 1
///     9    1   element: 1 float, 2 double, 3 bfloat16, 4 float16
///     10   1   flags: 1 dense, 2 indices of 64 bits (tensors of 2^31 elements and more)
///     11   1   0
///     12   4   CRC-32C of all other bytes
///     16   8   elements of the tensor
///     24   8   number of the step; the first is 1
///     32   8   entries
///     40       indices, 4 or 8 bytes each, rising; none if dense; then zeros up to a multiple of 8
///              values, in the type of the element
class sparse_message {
public:
    /// The size of the header in bytes.
    static constexpr std::size_t header_bytes = 40;

    sparse_message() = default;
    sparse_message(sparse_message const& other) { *this = other; }
    sparse_message(sparse_message&& other) noexcept { swap(other); }
    /// Copies the message and its memory.
    sparse_message& operator=(sparse_message const& other);
    sparse_message& operator=(sparse_message&& other) noexcept;

    /// The number of elements of the tensor.
    std::size_t size() const { return static_cast<std::size_t>(size_); }
    /// The number of the step; the first is 1.
    std::int64_t step() const { return step_; }
    /// The name of the type of the tensor's elements.
    std::string_view element() const { return element_ ? detail::info_of(*element_).element : "no element"; }
    /// The number of entries.
    std::size_t count() const { return static_cast<std::size_t>(count_); }
    /// Whether the message contains all elements.
    bool is_dense() const { return dense_; }

    /// The index of entry i. `indices()` returns all indices, as std::int32_t, or as std::int64_t
    /// for tensors of at least 2^31 elements. A dense message contains no indices.
    std::size_t index(std::size_t i) const {
        if (dense_) return i;
        if (is_wide()) return static_cast<std::size_t>(reinterpret_cast<std::int64_t const*>(body_.get())[i]);
        return static_cast<std::size_t>(reinterpret_cast<std::int32_t const*>(body_.get())[i]);
    }
    template <class Index> std::span<Index const> indices() const {
        static_assert(
            std::is_same_v<Index, std::int32_t> || std::is_same_v<Index, std::int64_t>,
            "gradstep: sparse_message: indices are read as another type; expected std::int32_t or std::int64_t");
        if (is_wide() != (sizeof(Index) == 8))
            detail::fail<value_error>({"indices"}, {"the tensor has ", size_, " elements"},
                                      {"to be read as ", is_wide() ? "std::int64_t" : "std::int32_t"});
        if (dense_) return {};
        return {reinterpret_cast<Index const*>(body_.get()), count()};
    }
    /// The values of the entries. Throws value_error if T is not the type of the elements.
    template <class T> std::span<T const> values() const {
        if (element_ != detail::sent_type<T>())
            detail::fail<value_error>({"values"}, {"the message is of ", element()}, {"to be read as that"});
        return {reinterpret_cast<T const*>(body_.get() + values_at()), count()};
    }

    /// Returns the message as bytes, for another process.
    std::vector<std::byte> encode() const;
    /// Writes these bytes to your memory of at least `encoded_bytes()` bytes, and leaves the rest
    /// unchanged. Throws size_error if the memory is smaller.
    void encode(std::span<std::byte> out) const;
    /// The number of bytes that `encode` writes.
    std::size_t encoded_bytes() const { return header_bytes + body_bytes(); }
    /// Returns the message from bytes that `encode` made. Throws value_error if the bytes are
    /// damaged or incomplete, or if there are too many.
    static sparse_message decode(std::span<std::byte const> bytes);

    class writer;

private:
    static constexpr std::string_view magic = "gradstep";
    static constexpr int version = 1;

    void encode_to(std::byte* out) const;
    template <class Index> void check_indices(detail::byte_reader const& from) const {
        std::int64_t before = -1;
        auto const* const indices = reinterpret_cast<Index const*>(body_.get());
        for (std::size_t e = 0; e != count(); ++e) {
            Index const i = indices[e];
            if (i <= before || i >= size_)
                from.refuse({"has the index ", i, " after ", before}, {"rising indices below ", size_});
            before = i;
        }
        for (std::size_t i = count() * index_bytes(); i < values_at(); ++i)
            if (body_[i] != std::byte(0))
                from.refuse({"has a byte that is not 0 between indices and values"}, {"zeros"});
    }

    bool is_wide() const { return size_ > 0x7fff'ffff; }
    std::size_t index_bytes() const { return dense_ ? 0 : is_wide() ? 8 : 4; }
    std::size_t value_bytes() const { return element_ ? size_of(*element_) : 0; }
    void take_header(sparse_message const& other) {
        size_ = other.size_;
        step_ = other.step_;
        count_ = other.count_;
        element_ = other.element_;
        dense_ = other.dense_;
    }
    void swap(sparse_message& other) noexcept {
        std::swap(size_, other.size_);
        std::swap(step_, other.step_);
        std::swap(count_, other.count_);
        std::swap(element_, other.element_);
        std::swap(dense_, other.dense_);
        std::swap(body_, other.body_);
    }
    std::size_t body_bytes() const { return values_at() + count() * value_bytes(); }
    // The offset of the values in the body, a multiple of 8.
    std::size_t values_at() const { return (count() * index_bytes() + 7) / 8 * 8; }

    std::int64_t size_ = 0, step_ = 0, count_ = 0;
    std::optional<scalar> element_;
    bool dense_ = false;
    detail::uninitialized_array<std::byte> body_; // the bytes after the header; null if empty
};

/// Makes a message and writes its entries one by one, for the steps that make messages.
class sparse_message::writer {
public:
    /// Returns a message with memory for `most` entries of this type. Throws std::bad_alloc; the
    /// other functions do not throw.
    static sparse_message begin(scalar type, std::size_t size, std::int64_t step, bool dense, std::size_t most) {
        sparse_message m = header(type, size, step, dense, most);
        m.body_ = detail::uninitialized_array<std::byte>(m.body_bytes());
        resize(m, most);
        return m;
    }
    /// Returns a message whose entries are zero: all of them if it is dense, else none.
    static sparse_message without_gradient(scalar type, std::size_t size, std::int64_t step, bool dense) {
        sparse_message m = begin(type, size, step, dense, dense ? size : 0);
        std::fill_n(m.body_.get(), m.body_bytes(), std::byte(0));
        return m;
    }
    /// Returns a message that owns the given body, until `release_body`.
    static sparse_message with_body(scalar type, std::size_t size, std::int64_t step, bool dense, std::size_t count,
                                    std::byte* body) {
        sparse_message m = header(type, size, step, dense, count);
        m.body_ = detail::uninitialized_array<std::byte>::owning(body);
        return m;
    }
    /// Returns the body of m, which the caller then owns and frees by delete[].
    static std::byte* release_body(sparse_message& m) { return m.body_.release(); }
    /// The size of a message with `count` entries, in bytes.
    static std::size_t encoded_bytes(scalar type, std::size_t size, bool dense, std::size_t count) {
        return header(type, size, 0, dense, count).encoded_bytes();
    }
    /// Sets the number of entries, at most the number at the beginning. It allocates nothing.
    static void resize(sparse_message& m, std::size_t count) {
        m.count_ = static_cast<std::int64_t>(count);
        for (std::size_t i = count * m.index_bytes(); i < m.values_at(); ++i) m.body_[i] = std::byte(0);
    }
    /// The memory of the entries.
    static std::span<std::byte> body(sparse_message& m) { return {m.body_.get(), m.body_bytes()}; }
    static std::span<std::byte const> body(sparse_message const& m) { return {m.body_.get(), m.body_bytes()}; }
    /// The entries in memory of the layout of a body: `write` sets one of them.
    template <class T> struct entries {
        std::byte* indices;
        T* values;
        bool wide;

        /// Entry number `entry` is this value, of the element `index`.
        GRADSTEP_HD void write(std::size_t entry, std::size_t index, T value) const {
            if (wide) reinterpret_cast<std::int64_t*>(indices)[entry] = static_cast<std::int64_t>(index);
            else reinterpret_cast<std::int32_t*>(indices)[entry] = static_cast<std::int32_t>(index);
            values[entry] = value;
        }
    };
    /// The entries of m, in its body or in other memory of the same layout.
    template <class T> static entries<T> entries_at(sparse_message const& m, std::byte* body) {
        return {body, reinterpret_cast<T*>(body + m.values_at()), m.is_wide()};
    }

private:
    static sparse_message header(scalar type, std::size_t size, std::int64_t step, bool dense, std::size_t count) {
        sparse_message m;
        m.size_ = static_cast<std::int64_t>(size);
        m.step_ = step;
        m.element_ = type;
        m.dense_ = dense;
        m.count_ = static_cast<std::int64_t>(count);
        return m;
    }
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
using message_writer = sparse_message::writer;
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/compression/sparse_message.ipp>
#endif
