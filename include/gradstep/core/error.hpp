#pragma once
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gradstep/core/config.hpp>

namespace gradstep {

/// Whatever gradstep throws is an `error` and the fitting std exception, so that both `catch (gradstep::error const&)`
/// and `catch (std::exception const&)` work. It is thrown at the border, before anything is written.
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

inline namespace GRADSTEP_ISA {
namespace detail {

template <class Number> std::string text(Number x) {
    char digits[32];
    auto const [end, failed] = std::to_chars(digits, digits + sizeof digits, x);
    (void)failed; // 32 characters hold every int64 and every shortest double
    return {digits, end};
}

/// "adam" for gradstep::adam, "warmup" for gradstep::warmup<gradstep::cosine>: the name of a policy in errors, logs
/// and JSON is its C++ name.
template <class T> constexpr std::string_view type_name() {
    std::string_view name = __PRETTY_FUNCTION__;
    name.remove_prefix(name.find("T = ") + 4);
    name = name.substr(0, name.find_first_of(";]<"));
    if (auto const scope = name.rfind(':'); scope != name.npos) name.remove_prefix(scope + 1);
    return name;
}

} // namespace detail
} // namespace GRADSTEP_ISA
} // namespace gradstep
