// expected-error: gradstep: make_updater: an argument is no policy: neither a rule, nor a regularizer, a
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1}, 0.5);
