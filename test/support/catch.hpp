#pragma once
/// Catch2, whichever version is there: 3 has split headers, Debian 12 has 2.13.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
