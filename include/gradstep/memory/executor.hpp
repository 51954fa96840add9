#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gradstep/base/compiler.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// The work of one call, by reference, for an executor. `work(part)` runs one part and does not
/// throw. It is valid until `run` returns.
class task {
public:
    /// Refers to a function of the part. `bytes` is approximately the memory traffic of the whole
    /// call.
    template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, task>) task(F const& f, std::size_t bytes = SIZE_MAX)
        : object_(&f), call_([](void const* object, std::size_t part) { (*static_cast<F const*>(object))(part); }),
          bytes_(bytes) {}

    /// Runs one part.
    void operator()(std::size_t part) const { call_(object_, part); }

    /// The approximate memory traffic of the whole call, or SIZE_MAX if unset. Executors use it to
    /// decide whether another thread is worth its cost.
    std::size_t bytes() const { return bytes_; }

private:
    void const* object_;
    void (*call_)(void const*, std::size_t);
    std::size_t bytes_;
};

/// An executor runs the parts of a call. `concurrency()` is the number of concurrent parts.
/// `run(parts, work)` calls work(0) to work(parts - 1) once each, in any order, on any threads, and
/// returns when all have ended. An executor whose threads balance the load has a static member
/// `parts_per_thread`: the number of parts into which the share of a thread can be split.
template <class E> concept executor = requires(E& e, std::size_t parts, task work) {
    { e.concurrency() } -> std::convertible_to<std::size_t>;
    e.run(parts, work);
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// The number of parts that pays for a call with this memory traffic: each part has at least 256
// KiB. Below 512 KiB, about 8 microseconds, one part.
inline std::size_t part_count(std::size_t bytes, std::size_t concurrency) {
    constexpr std::size_t part = 256 * 1024;
    return std::max<std::size_t>(1, std::min(concurrency, bytes / part));
}

// The same if a part costs nothing but its memory: as many per thread as the executor can use.
inline std::size_t small_part_count(std::size_t bytes, std::size_t threads, std::size_t parts_per_thread) {
    if (parts_per_thread == 1 || threads == 1) return part_count(bytes, threads);
    std::size_t const parts = part_count(bytes, threads * parts_per_thread);
    return parts < threads ? parts : parts / threads * threads;
}
template <class Executor> constexpr std::size_t parts_per_thread() {
    if constexpr (requires { Executor::parts_per_thread; }) return Executor::parts_per_thread;
    else return 1;
}
template <class Executor> std::size_t small_part_count(std::size_t bytes, Executor const& executor) {
    return small_part_count(bytes, executor.concurrency(), parts_per_thread<Executor>());
}

// A reference to an executor of any type. The executor must outlive it.
class executor_reference {
public:
    template <executor Executor>
    requires(!std::is_same_v<std::remove_const_t<Executor>, executor_reference>) // that is a copy
        explicit executor_reference(Executor& to)
        : to_(&to),
          concurrency_([](void const* of) { return static_cast<std::size_t>(cast<Executor>(of).concurrency()); }),
          run_([](void const* on, std::size_t parts, task work) { cast<Executor>(on).run(parts, work); }),
          parts_per_thread_(detail::parts_per_thread<Executor>()) {}

    std::size_t concurrency() const { return concurrency_(to_); }
    void run(std::size_t parts, task work) const { run_(to_, parts, work); }
    // The same as small_part_count of the executor.
    std::size_t small_parts_for(std::size_t bytes) const {
        return small_part_count(bytes, concurrency(), parts_per_thread_);
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
} // namespace gradstep::detail::inline GRADSTEP_ABI

namespace gradstep::inline GRADSTEP_ABI {
/// Runs all parts on the caller's thread.
struct serial_executor {
    std::size_t concurrency() const { return 1; }
    void run(std::size_t parts, task work) const {
        for (std::size_t part = 0; part < parts; ++part) work(part);
    }
};
} // namespace gradstep::inline GRADSTEP_ABI
