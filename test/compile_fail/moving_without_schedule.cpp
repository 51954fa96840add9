// expected-error: gradstep: moving: the argument is no schedule
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::scheduled const rule{gs::adam{}, gs::moving<"beta1">(0.5)};
