#pragma once
#include <cstdint>

#include <gradstep/base/compiler.hpp>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace gradstep::inline GRADSTEP_ISA {
/// How a CPU backend treats subnormal numbers while a kernel runs.
enum class subnormals {
    /// Treats results and operands below the normal range as zero (x86, AArch64), and restores the
    /// caller's mode.
    flush,
    keep, ///< does not change the floating-point mode of the calling thread
};
} // namespace gradstep::inline GRADSTEP_ISA

namespace gradstep::detail::inline GRADSTEP_ISA {
// The floating-point mode of the thread, and the bits in it that flush operands and results.
#if defined(__SSE2__)
inline constexpr std::uint64_t flush_bits = 0x8040; // flush to zero, denormals are zero
GRADSTEP_INLINE std::uint64_t floating_point_mode() { return _mm_getcsr(); }
GRADSTEP_INLINE void set_floating_point_mode(std::uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
inline constexpr std::uint64_t flush_bits = 1 << 24; // FPCR.FZ
GRADSTEP_INLINE std::uint64_t floating_point_mode() {
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
GRADSTEP_INLINE void set_floating_point_mode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
inline constexpr std::uint64_t flush_bits = 0; // unknown architecture: subnormals are kept
GRADSTEP_INLINE std::uint64_t floating_point_mode() { return 0; }
GRADSTEP_INLINE void set_floating_point_mode(std::uint64_t) {}
#endif

/// Flushes subnormals to zero during its lifetime. Without it, the moments of a feature without
/// gradient decay into the subnormal range and stay there. Every operation there takes a microcode
/// assist (14 to 20 times slower). The compiler does not know the mode: memory barriers keep the
/// kernel's loads and stores, and so its arithmetic, between the two writes of the register.
class flush_guard {
public:
    explicit flush_guard(subnormals mode) : before_(floating_point_mode()) {
        changed_ = mode == subnormals::flush && (before_ & flush_bits) != flush_bits;
        if (changed_) set_floating_point_mode(before_ | flush_bits);
        asm volatile("" ::: "memory");
    }
    ~flush_guard() {
        asm volatile("" ::: "memory");
        if (changed_) set_floating_point_mode(before_);
    }
    flush_guard(flush_guard const&) = delete;
    flush_guard& operator=(flush_guard const&) = delete;

private:
    std::uint64_t before_;
    bool changed_;
};
} // namespace gradstep::detail::inline GRADSTEP_ISA
