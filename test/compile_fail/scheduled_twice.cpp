// expected-error: gradstep: scheduled: the policy is scheduled already
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::scheduled const once{gs::adam{}, gs::moving<"beta1">(gs::constant{0.5})};
gs::scheduled const twice{once, gs::moving<"beta2">(gs::constant{0.5})};
