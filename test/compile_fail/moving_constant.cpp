// expected-error: gradstep: scheduled: a path names no number of the policy that can follow a schedule
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::scheduled const rule{gs::ftrl{}, gs::moving<"l1">(gs::constant{0.5})};
