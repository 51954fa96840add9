// expected-error: gradstep: the rule does not support elements of integers
#include <gradstep/gradstep.hpp>

#include <cstdint>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<std::int64_t>(gs::adam{}, gs::constant{1});
