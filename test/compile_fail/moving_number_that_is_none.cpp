// expected-error: gradstep: scheduled: a path names no number of the policy
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::scheduled const rule{gs::adam{}, gs::moving<"beta3">(gs::constant{0.5})};
