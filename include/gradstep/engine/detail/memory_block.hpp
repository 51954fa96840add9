#pragma once

#include <gradstep/engine/detail/kernels.hpp>

namespace gradstep::detail::inline GRADSTEP_ABI {
// Memory of a parameter, in the memory of a backend. It owns the memory, which begins with zeros,
// or refers to the caller's memory. A copy of memory that it owns is other memory with the same
// bytes.
class memory_block {
public:
    memory_block() = default;
    memory_block(memory_resource const& in, std::size_t bytes);
    // Refers to memory that the caller keeps.
    static memory_block referring_to(void* data, std::size_t bytes) {
        memory_block out;
        out.data_ = data;
        out.bytes_ = bytes;
        out.refers_ = true;
        return out;
    }
    memory_block(memory_block const& other);
    memory_block(memory_block&& other) noexcept { swap(other); }
    memory_block& operator=(memory_block other) noexcept {
        swap(other);
        return *this;
    }
    ~memory_block();

    bool refers() const { return refers_; }
    void* data() const { return data_; }
    std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
    std::size_t bytes() const { return bytes_; }

private:
    void swap(memory_block& other) noexcept {
        std::swap(in_, other.in_);
        std::swap(handle_, other.handle_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(refers_, other.refers_);
    }

    memory_resource const* in_ = nullptr;
    void *handle_ = nullptr, *data_ = nullptr;
    std::size_t bytes_ = 0;
    bool refers_ = false;
};
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/engine/detail/memory_block.ipp>
#endif
