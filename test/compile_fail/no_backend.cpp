// all.hpp alone brings the serial backend, but no default.
// expected-error: gradstep: no backend: include gradstep/gradstep.hpp, or give gs::serial_backend
#include <gradstep/all.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
