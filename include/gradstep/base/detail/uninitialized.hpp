#pragma once
#include <cstddef>
#include <utility>

#include <gradstep/base/compiler.hpp>

namespace gradstep::detail::inline GRADSTEP_ISA {
// An array that is written before it is read. A std::unique_ptr to an array would take several
// times as long to compile, in every file and for each element type.
template <class T> class uninitialized_array {
public:
    uninitialized_array() = default;
    explicit uninitialized_array(std::size_t count) : at_(new T[count]) {}
    // Takes ownership of a released array.
    static uninitialized_array owning(T* at) {
        uninitialized_array out;
        out.at_ = at;
        return out;
    }
    T* release() { return std::exchange(at_, nullptr); }
    uninitialized_array(uninitialized_array&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
    uninitialized_array& operator=(uninitialized_array&& other) noexcept {
        std::swap(at_, other.at_);
        return *this;
    }
    ~uninitialized_array() { delete[] at_; }

    T* get() const { return at_; }
    T& operator[](std::size_t i) const { return at_[i]; }

private:
    T* at_ = nullptr;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
