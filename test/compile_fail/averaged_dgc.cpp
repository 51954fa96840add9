// expected-error: gradstep: averaged: the rule is dgc_momentum, whose steps touch few elements; expected another rule
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::averaged{gs::dgc_momentum{}, gs::ema{}}, gs::constant{1});
