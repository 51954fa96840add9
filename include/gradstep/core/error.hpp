#pragma once
#include <atomic>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
[[noreturn, gnu::cold, gnu::noinline]] inline void abort_with(char const* sentence) {
    if (auto const handler = error_handling::current.load()) handler(sentence);
    std::fprintf(stderr, "%s\n", sentence);
    std::abort();
}
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

    void append_to(std::string& out) const {
        switch (is) {
        case kind::text:
            out.append(text);
            break;
        case kind::floating:
            append(out, floating);
            break;
        case kind::single:
            append(out, single);
            break;
        case kind::integer:
            append(out, integer);
            break;
        default:
            append(out, natural);
        }
    }

private:
    template <class Number> static void append(std::string& out, Number x) {
        char digits[32]; // hold every int64 and every shortest double
        out.append(digits, static_cast<std::size_t>(std::to_chars(digits, digits + sizeof digits, x).ptr - digits));
    }
};
[[gnu::cold, gnu::noinline]] inline std::string joined(std::initializer_list<piece> pieces) {
    std::string out;
    for (piece const& one : pieces) one.append_to(out);
    return out;
}
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
inline utf8_letter first_letter(std::string_view text) {
    auto const byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
    std::uint32_t const first = byte(0);
    if (first < 0x80) return {1, first, true};
    std::size_t const size = first < 0xc2 || first > 0xf4 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 1) return {};
    // What fewer bytes would say is no UTF-8, nor are halves of UTF-16 and what is beyond U+10FFFF: the second byte tells.
    std::uint32_t const least = first == 0xe0   ? 0xa0
                                : first == 0xf0 ? 0x90
                                                : 0x80,
                        most = first == 0xed   ? 0x9f
                               : first == 0xf4 ? 0x8f
                                               : 0xbf;
    utf8_letter out{1, first & (0x7fu >> size)};
    for (; out.bytes < size; ++out.bytes) {
        if (out.bytes == text.size()) return out;
        std::uint32_t const next = byte(out.bytes);
        if (next < (out.bytes == 1 ? least : 0x80) || next > (out.bytes == 1 ? most : 0xbf)) return out;
        out.code = out.code << 6 | (next & 0x3fu);
    }
    out.is_valid = true;
    return out;
}
inline bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        utf8_letter const letter = first_letter(text);
        if (!letter.is_valid) return false;
        text.remove_prefix(letter.bytes);
    }
    return true;
}
// Somebody else's text in a sentence: not longer than one, in UTF-8, and without what a terminal would obey.
[[gnu::cold, gnu::noinline]] inline std::string shortened(std::string_view text) {
    constexpr std::size_t most = 100;
    std::string out;
    while (!text.empty()) {
        utf8_letter const letter = first_letter(text);
        // Below 0x20, and from 0x7f to 0x9f, are no letters but what a terminal would obey.
        bool const is_shown = letter.is_valid && letter.code >= 0x20 && (letter.code < 0x7f || letter.code > 0x9f);
        std::size_t const taken = is_shown ? letter.bytes : 1;
        if (out.size() + taken > most) return out + "...";
        out.append(is_shown ? text.substr(0, taken) : "?");
        text.remove_prefix(taken);
    }
    return out;
}
inline std::string in_quotes(std::string_view text) { return "\"" + shortened(text) + "\""; }

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
