// expected-error: gradstep: agc: the rule is model-wise; expected a rule that works element by element
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::agc{gs::prodigy{}}, gs::constant{1});
