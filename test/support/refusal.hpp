#pragma once
#include <stdexcept>
#include <string>
#include <typeinfo>

#include <gradstep/base/error.hpp>

#include "support/catch.hpp"

/// The text of the `Error` that f() has to throw: that type and no other, which is a
/// gradstep::error and the std exception `Std`, with one text.
template <class Error, class Std = std::invalid_argument, class F> std::string refusal(F&& f) {
    try {
        f();
    } catch (gradstep::error const& caught) {
        CHECK(typeid(caught) == typeid(Error));
        auto const* const as_std = dynamic_cast<Std const*>(&caught);
        REQUIRE(as_std != nullptr);
        CHECK(std::string(as_std->what()) == caught.what());
        return caught.what();
    } catch (std::exception const& caught) {
        FAIL("not a gradstep::error: " << caught.what());
    }
    FAIL("nothing was thrown");
    return {};
}
