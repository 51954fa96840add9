// expected-error: gradstep: scheduled: a path names no number of the policy
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::scheduled const rule{gs::averaged{gs::adam{}, gs::ema{}}, gs::moving<"average.start">(gs::constant{0.5})};
