// expected-error: gradstep: after_step goes around decoupled
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::after_step const coupled{gs::l2{1}};
