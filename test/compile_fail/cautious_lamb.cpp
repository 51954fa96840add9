// expected-error: gradstep: cautious: the rule's step depends on the weight, on noise or on other elements; expected an elementwise rule
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const optimizer = gs::make_updater<float>(gs::cautious{gs::lamb{}}, gs::constant{1e-3});
