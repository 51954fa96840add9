// expected-error: gradstep: table: block8 keeps state in blocks of 256 elements, which rows of a table would divide; expected float
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table rows{gs::make_updater<gs::block8<float>>(gs::adam{}, gs::constant{1}), 10, 16, gs::touch_only{}};
