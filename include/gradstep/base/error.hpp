#pragma once
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <gradstep/base/compiler.hpp>

namespace gradstep {
/// Every exception of gradstep is an `error` and the matching std exception, so that both
/// `catch (gradstep::error const&)` and `catch (std::exception const&)` work. Arguments are checked
/// before anything is written. If exceptions are disabled (-fno-exceptions), the message goes to
/// the handler of `set_error_handler` instead.
struct error {
    virtual ~error() = default;
    /// The message: one sentence.
    virtual char const* what() const noexcept = 0;
    /// The stable id of the kind of error, such as "bad_size". It is the name of the C status code
    /// in lower case; docs/reference/errors.md lists every id with its cause and cure.
    virtual char const* id() const noexcept = 0;
};

/// An `error` that is also the std exception `Std`.
template <class Std> struct basic_error : Std, error {
    using Std::Std;
    char const* what() const noexcept override { return Std::what(); }
};

/// Buffers of one call differ in length; the message contains both lengths.
struct size_error : basic_error<std::invalid_argument> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "bad_size"; }
};

/// A number is missing or outside its range; the message contains the hyperparameter, the value and
/// the allowed range.
struct value_error : basic_error<std::invalid_argument> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "bad_value"; }
};

/// A combination of policies and element that was not compiled into the program (gradstep/runtime);
/// the message contains the closest ones that were.
struct not_compiled_error : value_error {
    using value_error::value_error;
    char const* id() const noexcept override { return "not_compiled"; }
};

/// Memory that cannot be used: null, overlapping, read-only, or with the wrong layout.
struct buffer_error : basic_error<std::invalid_argument> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "bad_buffer"; }
};

/// The system does not provide memory; the message contains the purpose and the size.
struct memory_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "out_of_memory"; }
};

/// A gradient contains NaN or infinity, with `nonfinite::raise`.
struct nonfinite_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "not_finite"; }
};

/// A callback of the application did not run its parts, or the system does not provide the threads
/// of a pool.
struct executor_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "executor_failed"; }
};

/// A file cannot be read or written, or has the wrong content; the message contains its name and
/// the system's reason.
struct io_error : basic_error<std::runtime_error> {
    explicit io_error(std::string const& sentence, int code = 0) : basic_error(sentence), system_code(code) {}
    /// The errno of the system call that failed; 0 if none did.
    int system_code;
    char const* id() const noexcept override { return "io_error"; }
};

/// A call in the wrong order, such as an update while averages are applied.
struct sequence_error : basic_error<std::logic_error> {
    using basic_error::basic_error;
    char const* id() const noexcept override { return "bad_sequence"; }
};

/// Receives the message of an error if exceptions are disabled. It must not return, since the
/// arguments of the failed call are invalid. If it does return, or if there is no handler, the
/// message goes to stderr and the program aborts.
using error_handler = void (*)(char const* sentence);
} // namespace gradstep

namespace gradstep::error_handling {
inline std::atomic<error_handler> current = nullptr; // one for all instruction sets
} // namespace gradstep::error_handling

namespace gradstep {
/// Sets the handler for the whole program; null removes it. Returns the previous handler. It is
/// never called if exceptions are enabled.
GRADSTEP_INLINE error_handler set_error_handler(error_handler handler) {
    return error_handling::current.exchange(handler);
}
} // namespace gradstep

namespace gradstep::detail::inline GRADSTEP_ABI {
#if !GRADSTEP_EXCEPTIONS
[[noreturn, gnu::cold]] void abort_with(char const* sentence);
#endif

// Every `throw` is here: out of line, since errors are rare. Without exceptions it passes on the
// message. Only for a message that exists already; `fail` builds all others.
template <class Error, class... Details>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::string const& sentence,
                                                        [[maybe_unused]] Details... details) {
#if GRADSTEP_EXCEPTIONS
    throw Error(sentence, details...);
#else
    abort_with(sentence.c_str());
#endif
}

// One message argument: a borrowed string or a number. Messages are assembled out of line, since
// many templates would compile a copy.
struct text_arg {
    enum class kind { text, floating, single, integer, natural } is;
    union {
        std::string_view text;
        double floating;
        float single;
        std::int64_t integer;
        std::uint64_t natural;
    };

    GRADSTEP_INLINE text_arg(char const* x) : is(kind::text), text(x) {}
    GRADSTEP_INLINE text_arg(std::string_view x) : is(kind::text), text(x) {}
    GRADSTEP_INLINE text_arg(std::string const& x) : is(kind::text), text(x) {}
    GRADSTEP_INLINE text_arg(double x) : is(kind::floating), floating(x) {}
    GRADSTEP_INLINE text_arg(float x) : is(kind::single), single(x) {}
    template <std::signed_integral Integer> GRADSTEP_INLINE text_arg(Integer x) : is(kind::integer), integer(x) {}
    template <std::unsigned_integral Natural> GRADSTEP_INLINE text_arg(Natural x) : is(kind::natural), natural(x) {}

    void append_to(std::string& out) const;
};
[[gnu::cold]] std::string joined(std::initializer_list<text_arg> arguments);

// The parts of every message: "<where>: <given>; expected <expected>". A hint is the end of
// `expected`.
using message_part = std::initializer_list<text_arg>;
[[gnu::cold]] std::string message(message_part where, message_part given, message_part expected = {});

template <class Error>
[[noreturn, gnu::cold, gnu::noinline]] void fail(message_part where, message_part given, message_part expected) {
    throw_error<Error>(message(where, given, expected));
}

// The causes outside the arguments: the system, a file, another process, a gradient. Their messages
// may say what happened without what is expected.
template <class Error> concept runtime_failure = std::derived_from<Error, std::runtime_error>;
template <runtime_failure Error>
[[noreturn, gnu::cold, gnu::noinline]] void fail(message_part where, message_part happened) {
    throw_error<Error>(message(where, happened));
}

template <class Error = std::bad_alloc> [[noreturn, gnu::cold, gnu::noinline]] void fail_for_memory() {
#if GRADSTEP_EXCEPTIONS
    throw Error();
#else
    abort_with("gradstep: the system gives no more memory");
#endif
}

// Calls f(). An exception of type Cause goes to `handler`, which throws another one.
template <class Cause, class F, class Handler> decltype(auto) rethrow_as(F const& f, Handler const& handler) {
#if GRADSTEP_EXCEPTIONS
    try {
        return f();
    } catch (Cause const& cause) {
        handler(cause);
        throw;
    }
#else
    static_cast<void>(handler);
    return f();
#endif
}

// Calls f(). Its errors are rethrown with prefix() before the message.
template <class Prefix, class F> void with_context(Prefix const& prefix, F const& f) {
    auto const renamed = [&]<class Error>(Error const& refusal) {
        throw_error<Error>(joined({prefix(), refusal.what()}));
    };
    auto const of_buffers = [&] { rethrow_as<buffer_error>([&] { rethrow_as<size_error>(f, renamed); }, renamed); };
    auto const of_values = [&] { rethrow_as<value_error>(of_buffers, renamed); };
    rethrow_as<sequence_error>([&] { rethrow_as<nonfinite_error>(of_values, renamed); }, renamed);
}

// Returns the exception of f(), to be rethrown on another thread; null if f returns.
template <class F> std::exception_ptr exception_of(F const& f) {
#if GRADSTEP_EXCEPTIONS
    try {
        f();
    } catch (...) {
        return std::current_exception();
    }
#else
    f();
#endif
    return nullptr;
}

// Calls undo() at the end of the scope if an exception leaves it before dismiss().
template <class Undo> class rollback_guard {
public:
    explicit rollback_guard(Undo undo) : undo_(std::move(undo)) {}
    ~rollback_guard() {
        if (!done_) undo_();
    }
    rollback_guard(rollback_guard const&) = delete;
    rollback_guard& operator=(rollback_guard const&) = delete;
    void dismiss() { done_ = true; }

private:
    Undo undo_;
    bool done_ = false;
};

// A number as text, for errors and descriptions.
template <class Number> std::string text(Number x) { return joined({x}); }

// The UTF-8 character at the beginning of a non-empty text. If it is invalid, `bytes` is the number
// of bytes that cannot be part of one, at least 1.
struct utf8_letter {
    std::size_t bytes = 1;
    std::uint32_t code = 0;
    bool is_valid = false;
};
utf8_letter first_letter(std::string_view text);
bool is_utf8(std::string_view text);
// External text for a message: at most as long as a sentence, valid UTF-8, and without control
// characters for a terminal.
[[gnu::cold]] std::string shortened(std::string_view text);
std::string in_quotes(std::string_view text);

// The name of T in the signature of a template: out of line, since each T calls it.
[[gnu::cold]] constexpr std::string_view type_in(std::string_view signature) {
    std::string_view name = signature.substr(signature.find("T = ") + 4);
    name = name.substr(0, name.find_first_of(";]<"));
    return name.substr(name.rfind(':') + 1); // from 0 if there is none
}
/// The name of a policy in errors, logs and JSON is its C++ name: "adam" for gradstep::adam,
/// "warmup" for gradstep::warmup<gradstep::cosine>.
template <class T> constexpr std::string_view type_name() { return type_in(__PRETTY_FUNCTION__); }
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/base/error.ipp>
#endif
