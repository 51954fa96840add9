#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include <gradstep/base/error.hpp>

/// What tests check on a rank: Catch's own macros are for one thread alone, and do not know of the
/// other ranks.
namespace on_ranks {

struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void require(bool holds, std::string const& what) {
    if (!holds) throw failure(what);
}
template <class T, class U> void require_equal(T const& found, U const& expected, std::string const& what) {
    if (!(found == expected))
        throw failure(what + ": is " + gradstep::detail::text(found) + ", must be " + gradstep::detail::text(expected));
}

/// The sentence of the Error that f throws.
template <class Error, class F> std::string refusal(F const& f) {
    try {
        f();
    } catch (Error const& refused) {
        return refused.what();
    }
    throw failure("nothing was refused");
}
inline void require_contains(std::string_view text, std::string_view part) {
    if (text.find(part) == text.npos)
        throw failure("\"" + std::string(text) + "\" does not say \"" + std::string(part) + "\"");
}

} // namespace on_ranks
