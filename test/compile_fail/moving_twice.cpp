// expected-error: gradstep: scheduled: two gs::moving have the same path
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::scheduled const rule{gs::adam{}, gs::moving<"beta1">(gs::constant{0.5}), gs::moving<"beta1">(gs::constant{0.25})};
