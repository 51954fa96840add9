// expected-error: gradstep: regularizer: its numbers are fractions, and the elements are integers; expected floating-point elements
#include <gradstep/gradstep.hpp>

#include <cstdint>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<std::int32_t>(gs::add_delta{}, gs::l2{0.5}, gs::constant{1});
