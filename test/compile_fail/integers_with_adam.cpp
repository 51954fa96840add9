// expected-error: gradstep: rule: it divides, or scales by fractions, and the elements are integers; expected floating-point elements
#include <gradstep/gradstep.hpp>

#include <cstdint>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<std::int64_t>(gs::adam{}, gs::constant{1});
