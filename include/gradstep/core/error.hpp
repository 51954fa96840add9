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

#include <gradstep/core/compiler.hpp>

namespace gradstep {

/// Whatever gradstep throws is an `error` and the fitting std exception, so that both `catch (gradstep::error const&)`
/// and `catch (std::exception const&)` work. It is thrown at the border, before anything is written. Where the compiler
/// has exceptions off (-fno-exceptions), the sentence goes to the handler of `set_error_handler` instead.
struct error {
    virtual ~error() = default;
    /// What is wrong, in one sentence.
    virtual char const* what() const noexcept = 0;
};

/// An `error` that is also the std exception `Std`.
template <class Std> struct basic_error : Std, error {
    using Std::Std;
    char const* what() const noexcept override { return Std::what(); }
};

/// Buffers of one call differ in length; the text names both lengths.
struct size_error : basic_error<std::invalid_argument> {
    using basic_error::basic_error;
};

/// A number is missing or outside its range; the text names the member, the value and what is allowed.
struct value_error : basic_error<std::invalid_argument> {
    using basic_error::basic_error;
};

/// A combination of policies and element that was not compiled into the program (gradstep/runtime); the text names what was.
struct not_compiled_error : value_error {
    using value_error::value_error;
};

/// Memory that cannot be used: null, overlapping, read-only, or not laid out as it must be.
struct buffer_error : basic_error<std::invalid_argument> {
    using basic_error::basic_error;
};

/// Memory that the system does not give; the text says for what, and how much.
struct memory_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
};

/// A gradient is not finite, where that was to be an error (`nonfinite::raise`).
struct nonfinite_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
};

/// A host's callback did not run the parts that it was given, or the system does not give the threads of a pool.
struct executor_error : basic_error<std::runtime_error> {
    using basic_error::basic_error;
};

/// A file that cannot be read or written, or that is not what it should be; the text names it, and what the system says.
struct io_error : basic_error<std::runtime_error> {
    explicit io_error(std::string const& sentence, int code = 0) : basic_error(sentence), system_code(code) {}
    /// The errno of the system call that failed; 0 if none did.
    int system_code;
};

/// A call at a time that is not its own: an update while averages stand in the weights' place.
struct sequence_error : basic_error<std::logic_error> {
    using basic_error::basic_error;
};

/// What is told the sentence of an error where exceptions are off. It must not return: what it would return to has
/// arguments that were refused. Where it does, or where there is none, the sentence goes to stderr and the program aborts.
using error_handler = void (*)(char const* sentence);

namespace error_handling {
inline std::atomic<error_handler> current = nullptr; // one for all instruction sets
} // namespace error_handling

/// Sets the handler for the whole program; null takes it away. Returns the one before. With exceptions it is never called.
GRADSTEP_INLINE error_handler set_error_handler(error_handler handler) {
    return error_handling::current.exchange(handler);
}

namespace detail {
inline namespace GRADSTEP_ABI {

#if !GRADSTEP_EXCEPTIONS
[[noreturn, gnu::cold]] void abort_with(char const* sentence);
#endif

// The one place of every `throw`: out of line, since errors are rare, and the sentence alone where exceptions are off.
template <class Error, class... Details>
[[noreturn, gnu::cold, gnu::noinline]] void fail(std::string const& sentence, [[maybe_unused]] Details... details) {
#if GRADSTEP_EXCEPTIONS
    throw Error(sentence, details...);
#else
    abort_with(sentence.c_str());
#endif
}

// A piece of a sentence: text that is somebody else's, or a number. Put together out of line, since what many templates
// may say is compiled with each of them.
struct piece {
    enum class kind { text, floating, single, integer, natural } is;
    union {
        std::string_view text;
        double floating;
        float single;
        std::int64_t integer;
        std::uint64_t natural;
    };

    GRADSTEP_INLINE piece(char const* x) : is(kind::text), text(x) {}
    GRADSTEP_INLINE piece(std::string_view x) : is(kind::text), text(x) {}
    GRADSTEP_INLINE piece(std::string const& x) : is(kind::text), text(x) {}
    GRADSTEP_INLINE piece(double x) : is(kind::floating), floating(x) {}
    GRADSTEP_INLINE piece(float x) : is(kind::single), single(x) {}
    template <std::signed_integral Integer> GRADSTEP_INLINE piece(Integer x) : is(kind::integer), integer(x) {}
    template <std::unsigned_integral Natural> GRADSTEP_INLINE piece(Natural x) : is(kind::natural), natural(x) {}

    void append_to(std::string& out) const;
};
[[gnu::cold]] std::string joined(std::initializer_list<piece> pieces);
template <class Error> [[noreturn, gnu::cold, gnu::noinline]] void fail(std::initializer_list<piece> pieces) {
    fail<Error>(joined(pieces));
}

template <class Error = std::bad_alloc> [[noreturn, gnu::cold, gnu::noinline]] void fail_for_memory() {
#if GRADSTEP_EXCEPTIONS
    throw Error();
#else
    abort_with("gradstep: the system gives no more memory");
#endif
}

// f(); an exception of type Cause goes to `handler`, which throws one of its own.
template <class Cause, class F, class Handler> decltype(auto) translating(F const& f, Handler const& handler) {
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

// f(); what it refuses, it refuses with prefix() before the sentence.
template <class Prefix, class F> void naming(Prefix const& prefix, F const& f) {
    auto const renamed = [&]<class Error>(Error const& refusal) { fail<Error>({prefix(), refusal.what()}); };
    auto const of_buffers = [&] { translating<buffer_error>([&] { translating<size_error>(f, renamed); }, renamed); };
    auto const of_values = [&] { translating<value_error>(of_buffers, renamed); };
    translating<sequence_error>([&] { translating<nonfinite_error>(of_values, renamed); }, renamed);
}

// What f() throws, to be thrown again on another thread; null if it returns.
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
template <class Undo> class undo_unless_done {
public:
    explicit undo_unless_done(Undo undo) : undo_(std::move(undo)) {}
    ~undo_unless_done() {
        if (!done_) undo_();
    }
    undo_unless_done(undo_unless_done const&) = delete;
    undo_unless_done& operator=(undo_unless_done const&) = delete;
    void dismiss() { done_ = true; }

private:
    Undo undo_;
    bool done_ = false;
};

// A number as errors and descriptions have it.
template <class Number> std::string text(Number x) { return joined({x}); }

// The letter of UTF-8 that a text, which is not empty, begins with. Where it begins with none, `bytes` are those that cannot be
// part of one, at least 1.
struct utf8_letter {
    std::size_t bytes = 1;
    std::uint32_t code = 0;
    bool is_valid = false;
};
utf8_letter first_letter(std::string_view text);
bool is_utf8(std::string_view text);
// Somebody else's text in a sentence: not longer than one, in UTF-8, and without what a terminal would obey.
[[gnu::cold]] std::string shortened(std::string_view text);
std::string in_quotes(std::string_view text);

/// "adam" for gradstep::adam, "warmup" for gradstep::warmup<gradstep::cosine>: the name of a policy in errors, logs
/// and JSON is its C++ name.
template <class T> constexpr std::string_view type_name() {
    std::string_view name = __PRETTY_FUNCTION__;
    name.remove_prefix(name.find("T = ") + 4);
    name = name.substr(0, name.find_first_of(";]<"));
    if (auto const scope = name.rfind(':'); scope != name.npos) name.remove_prefix(scope + 1);
    return name;
}

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/core/error.ipp>
#endif
