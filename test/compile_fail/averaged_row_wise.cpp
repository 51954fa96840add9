// expected-error: gradstep: averaged: the rule is row-wise; expected a rule that works element by element
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::averaged{gs::lamb{}, gs::ema{}}, gs::constant{1});
