// expected-error: gradstep: averaged: the rule keeps numbers of all steps in the clock
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::averaged{gs::prodigy{}, gs::ema{0.999}}, gs::constant{1});
