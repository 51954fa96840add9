// expected-error: gradstep: elements of integers take no regularizer
#include <gradstep/gradstep.hpp>

#include <cstdint>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<std::int32_t>(gs::add_delta{}, gs::l2{0.5}, gs::constant{1});
