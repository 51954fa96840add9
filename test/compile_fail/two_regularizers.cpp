// expected-error: gradstep: make_updater takes one regularizer: join several in gs::all_of
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::adam{}, gs::l2{1}, gs::constant{1}, gs::clip_value{1});
