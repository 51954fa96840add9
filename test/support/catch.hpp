#pragma once
/// Catch2, whichever version is there: 3 has split headers, Debian 12 has 2.13.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
/// The name of version 3, where Contains is about ranges.
inline auto ContainsSubstring(std::string const& part) { return Catch::Matchers::Contains(part); }
#endif
