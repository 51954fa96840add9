// expected-error: gradstep: all_of: a part is scheduled
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::all_of const both{gs::clip_value{1}, gs::scheduled{gs::l2{}, gs::moving<"rate">(gs::constant{0.5})}};
