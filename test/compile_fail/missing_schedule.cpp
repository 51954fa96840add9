// expected-error: gradstep: make_updater needs exactly one schedule: a learning rate must be chosen
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{1});
