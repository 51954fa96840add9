// expected-error: gradstep: averaged: the rule needs a matrix; expected a rule that works element by element; average the parameter by gs::averager
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/muon.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::averaged{gs::muon{}, gs::ema{}}, gs::constant{1});
