#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradstep/core/compiler.hpp>

namespace gradstep {
inline namespace GRADSTEP_ABI {

/// A reference to the work of one call, as an executor gets it: `work(part)` does one part and does not throw. It is
/// valid until `run` returns.
class task {
public:
    /// `bytes` is about how much memory the whole call moves.
    template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, task>) task(F const& f, std::size_t bytes = SIZE_MAX)
        : object_(&f), call_([](void const* object, std::size_t part) { (*static_cast<F const*>(object))(part); }),
          bytes_(bytes) {}

    /// Does one part.
    void operator()(std::size_t part) const { call_(object_, part); }

    /// About how much memory the whole call moves, by which an executor may judge what another thread is worth;
    /// SIZE_MAX where nobody has said.
    std::size_t bytes() const { return bytes_; }

private:
    void const* object_;
    void (*call_)(void const*, std::size_t);
    std::size_t bytes_;
};

/// What runs the parts of a call: `concurrency()` parts at a time, and `run(parts, work)`, which calls work(0) to
/// work(parts - 1) once each, in any order, on any threads, and returns when all are done. One whose threads take the
/// parts as they come says so by a static member `parts_per_thread`, into how many parts of its own the share of a thread
/// may be split.
template <class E> concept executor = requires(E& e, std::size_t parts, task work) {
    { e.concurrency() } -> std::convertible_to<std::size_t>;
    e.run(parts, work);
};
} // namespace GRADSTEP_ABI

namespace detail {
inline namespace GRADSTEP_ABI {

// Into how many parts a call of so many bytes of traffic is worth being split: none of less than 256 KiB, and below
// twice that, about 8 microseconds, one.
inline std::size_t parts_worth(std::size_t bytes, std::size_t concurrency) {
    constexpr std::size_t part = 256 * 1024;
    return std::max<std::size_t>(1, std::min(concurrency, bytes / part));
}

// The same where a part costs nothing but its memory: as many for each thread as the executor has use for.
inline std::size_t small_parts_worth(std::size_t bytes, std::size_t threads, std::size_t parts_per_thread) {
    if (parts_per_thread == 1 || threads == 1) return parts_worth(bytes, threads);
    std::size_t const parts = parts_worth(bytes, threads * parts_per_thread);
    return parts < threads ? parts : parts / threads * threads;
}
template <class Executor> constexpr std::size_t parts_per_thread() {
    if constexpr (requires { Executor::parts_per_thread; }) return Executor::parts_per_thread;
    else return 1;
}
template <class Executor> std::size_t small_parts_worth(std::size_t bytes, Executor const& executor) {
    return small_parts_worth(bytes, executor.concurrency(), parts_per_thread<Executor>());
}

// An executor of whatever type, which must outlive it.
class executor_reference {
public:
    template <executor Executor>
    explicit executor_reference(Executor& to)
        : to_(&to),
          concurrency_([](void const* of) { return static_cast<std::size_t>(cast<Executor>(of).concurrency()); }),
          run_([](void const* on, std::size_t parts, task work) { cast<Executor>(on).run(parts, work); }),
          parts_per_thread_(detail::parts_per_thread<Executor>()) {}

    std::size_t concurrency() const { return concurrency_(to_); }
    void run(std::size_t parts, task work) const { run_(to_, parts, work); }
    // As small_parts_worth of the executor itself.
    std::size_t small_parts_for(std::size_t bytes) const {
        return small_parts_worth(bytes, concurrency(), parts_per_thread_);
    }

private:
    template <class Executor> static Executor& cast(void const* to) {
        return *static_cast<Executor*>(const_cast<void*>(to));
    }

    void const* to_;
    std::size_t (*concurrency_)(void const*);
    void (*run_)(void const*, std::size_t, task);
    std::size_t parts_per_thread_;
};

} // namespace GRADSTEP_ABI
} // namespace detail

inline namespace GRADSTEP_ABI {
/// Runs everything on the caller's thread.
struct serial_executor {
    std::size_t concurrency() const { return 1; }
    void run(std::size_t parts, task work) const {
        for (std::size_t part = 0; part < parts; ++part) work(part);
    }
};

} // namespace GRADSTEP_ABI
} // namespace gradstep
