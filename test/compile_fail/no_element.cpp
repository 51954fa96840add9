// expected-error: gradstep: make_updater<Element>: no such element; float, double, bfloat16
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<char>(gs::adam{}, gs::constant{1});
