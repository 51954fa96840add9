#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include <gradstep/base/error.hpp>
#include <gradstep/c/gradstep.h>
#include <gradstep/runtime.hpp>
#include <gradstep/saved/load_options.hpp>

// What every function of the C interface is made of.
namespace gradstep::c {

/// What the border itself refuses.
struct refusal {
    gradstep_status code;
    std::string sentence;
};
[[noreturn]] void refuse(gradstep_status code, detail::message_part where, detail::message_part given,
                         detail::message_part expected);
/// The same for an error that has its sentence.
[[noreturn]] void refuse(gradstep_status code, std::string sentence);

/// Fills in an error, as far as the caller's structure reaches.
void tell(gradstep_error* to, gradstep_status code, std::string_view sentence, int system_code = 0) noexcept;
/// The same for the exception that is being handled; returns its code.
gradstep_status tell_current(gradstep_error* to) noexcept;

/// f(), whose exceptions become a code and a sentence.
template <class F> gradstep_status guarded(gradstep_error* error, F const& f) noexcept {
    try {
        f();
    } catch (...) {
        return tell_current(error);
    }
    tell(error, GRADSTEP_OK, "");
    return GRADSTEP_OK;
}

/// Throws GRADSTEP_NULL_ARGUMENT for the name of a pointer that must not be null.
inline void require(void const* pointer, char const* name) {
    if (pointer == nullptr) refuse(GRADSTEP_NULL_ARGUMENT, {name}, {"is NULL"}, {"memory"});
}
inline void require(void const* pointer, char const* name, std::uint64_t count) {
    if (count != 0) require(pointer, name);
}

/// What a handle points to: it stays where it is when the handle is released, so that one that is
/// used afterwards is known by its magic number, until very many others have come.
template <class Object> struct shell {
    std::atomic<std::uint64_t> magic = 0;
    std::unique_ptr<Object> object;
};
template <class Handle> class shells {
public:
    /// The handle of a new object.
    template <class Object> static Handle* add(std::unique_ptr<Object> object) {
        std::unique_ptr<Handle> fresh;
        std::lock_guard const lock(mutex_());
        auto& free = free_();
        if (free.size() > most_remembered) {
            fresh.reset(free.front());
            free.pop_front();
        } else {
            fresh = std::make_unique<Handle>();
        }
        fresh->object = std::move(object);
        fresh->magic = Handle::living;
        return fresh.release();
    }
    static void release(Handle* handle) noexcept {
        if (handle == nullptr) return;
        std::uint64_t living = Handle::living;
        if (!handle->magic.compare_exchange_strong(living, 0)) return; // it has been released, or is none
        handle->object.reset();
        std::lock_guard const lock(mutex_());
        try {
            free_().push_back(handle);
        } catch (std::bad_alloc const&) { // it is not used again, then
        }
    }
    static auto& get(Handle const* handle, char const* name) {
        require(handle, name);
        if (handle->magic.load(std::memory_order_relaxed) != Handle::living)
            refuse(GRADSTEP_BAD_HANDLE, {name}, {"was released, or is something else"},
                   {"a ", Handle::kind, " that has not been released"});
        return *handle->object;
    }

private:
    static constexpr std::size_t most_remembered = 4096;
    // Neither is ever destroyed: a host may release handles while the process ends.
    static std::mutex& mutex_() {
        static auto* const mutex = new std::mutex;
        return *mutex;
    }
    static std::deque<Handle*>& free_() {
        static auto* const free = new std::deque<Handle*>;
        return *free;
    }
};

/// f(), whose value_error is one of the configuration.
template <class F> decltype(auto) of_config(F const& f) {
    try {
        return f();
    } catch (not_compiled_error const&) {
        throw;
    } catch (value_error const& wrong) {
        refuse(GRADSTEP_BAD_CONFIG, wrong.what());
    }
}
/// Throws GRADSTEP_BAD_CONFIG if GRADSTEP_SIMD names no instruction set that runs here.
void require_instruction_set();
/// read(text), for the text of a create function: errors of it are GRADSTEP_BAD_CONFIG.
template <class Read> auto read_text(char const* text, std::size_t bytes, Read const& read) {
    require(text, "config");
    require_instruction_set();
    return of_config([&] { return read(std::string_view(text, bytes)); });
}
inline optimizer_configuration read_config(char const* config, std::size_t bytes) {
    return read_text(config, bytes, [](std::string_view text) { return read_optimizer(text); });
}
/// The element of a dtype for an optimizer, which handles signed integers as unsigned ones of their
/// size.
scalar scalar_of(std::int32_t dtype, char const* name);
scalar storage_of(std::int32_t dtype, configuration const& policies);
/// The ids of a caller, or its offsets of bags.
inline any_span ids_of(void const* ids, std::int32_t dtype, std::uint64_t count, char const* name = "ids") {
    require(ids, name, count);
    return any_span(scalar_of(dtype, "id_dtype"), ids, static_cast<std::size_t>(count));
}

/// Returns the configuration with n numbers changed: paths[k] gets values[k].
optimizer_configuration with_numbers(optimizer_configuration config, char const* const* paths, double const* values,
                                     std::uint64_t n);

step_options options_of(gradstep_step_options const* options, std::uint64_t seed = 0);
load_options options_of(gradstep_load_options const* options);
/// A structure of the caller's, which may be of an older or a newer header: as much of it as both
/// know.
template <class T> T known_part(T const* from, T const& defaults, char const* name) {
    T out = defaults;
    if (from == nullptr) return out;
    if (from->struct_size < 2 * sizeof(std::uint32_t))
        refuse(GRADSTEP_BAD_SIZE, {name, ".struct_size"}, {from->struct_size, " is out of range"},
               {"sizeof(", name, ")"});
    std::memcpy(&out, from, std::min<std::size_t>(from->struct_size, sizeof out));
    return out;
}
template <class T> void write_known_part(T from, T* to, char const* name) {
    require(to, name);
    std::uint32_t const size = to->struct_size;
    if (size < 2 * sizeof(std::uint32_t))
        refuse(GRADSTEP_BAD_SIZE, {name, ".struct_size"}, {size, " is out of range"}, {"sizeof(", name, ")"});
    from.struct_size = size;
    std::memcpy(to, &from, std::min<std::size_t>(size, sizeof from));
}
/// A text to memory of the caller's, with the 0 behind it.
void write_text(std::string const& text, char* buffer, std::uint64_t bytes, std::uint64_t* written);

/// What slot `index` of an updater is. Throws GRADSTEP_BAD_VALUE for one that there is not.
gradstep_slot slot_of(any_updater const& of, std::uint64_t index);
gradstep_clock clock_of(gradstep::clock at);
gradstep::clock clock_of(gradstep_clock const* at);
/// rows * width, which must be as many elements as memory can have.
std::uint64_t product(std::uint64_t rows, std::uint64_t width);

/// Threads of whatever kind, which handles share.
class threads {
public:
    virtual ~threads() = default;
    virtual detail::executor_reference reference() = 0;
};
/// The threads that `threads` of a configuration asks for; null for the caller's thread alone.
std::shared_ptr<threads> threads_for(std::int64_t count);

} // namespace gradstep::c

struct gradstep_executor : gradstep::c::shell<std::shared_ptr<gradstep::c::threads>> {
    static constexpr std::uint64_t living = 0x6772616473746578;
    static constexpr char const* kind = "executor";
};
