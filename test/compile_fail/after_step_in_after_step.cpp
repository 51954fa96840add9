// expected-error: gradstep: after_step: the argument is not decoupled; expected decoupled
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::after_step const twice{gs::after_step{gs::decoupled{1}}};
