// expected-error: gradstep: chain begins with a schedule
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::chain const joined{0.5, 100, gs::constant{1}};
