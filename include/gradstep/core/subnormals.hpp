#pragma once
#include <gradstep/core/config.hpp>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace gradstep {
inline namespace GRADSTEP_ISA {

/// What a CPU backend does about subnormal numbers while a kernel runs.
enum class subnormals {
    flush, ///< results and operands below the normal range count as zero (x86); the caller's mode is restored
    keep,  ///< the floating-point mode of the calling thread is left as it is
};

namespace detail {

/// Flushes subnormals to zero while it lives. Without it the moments of a feature without gradient decay into the
/// subnormal range and stay there, where every operation takes a microcode assist (14 to 20 times slower).
/// The compiler knows nothing of the mode: the memory barriers keep the kernel's loads and stores, and with them its
/// arithmetic, between the two writes of the register.
class flush_guard {
public:
#if defined(__SSE2__)
    explicit flush_guard(subnormals mode) : before_(_mm_getcsr()), changed_(mode == subnormals::flush) {
        changed_ = changed_ && (before_ & flush_bits) != flush_bits;
        if (changed_) _mm_setcsr(before_ | flush_bits);
        asm volatile("" ::: "memory");
    }
    ~flush_guard() {
        asm volatile("" ::: "memory");
        if (changed_) _mm_setcsr(before_);
    }

private:
    static constexpr unsigned flush_bits = 0x8040; // flush to zero, denormals are zero
    unsigned before_;
    bool changed_;
#else
    explicit flush_guard(subnormals) {}
#endif
public:
    flush_guard(flush_guard const&) = delete;
    flush_guard& operator=(flush_guard const&) = delete;
};

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
