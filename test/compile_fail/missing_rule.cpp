// expected-error: gradstep: make_updater needs exactly one rule, as gs::adam
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::l2{1}, gs::constant{1});
