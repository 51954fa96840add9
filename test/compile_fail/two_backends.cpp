// expected-error: gradstep: make_updater takes one backend
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1}, gs::serial_backend{}, gs::simd_backend{});
