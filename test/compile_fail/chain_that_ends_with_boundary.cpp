// expected-error: gradstep: chain: the arguments do not alternate; expected schedules and the boundaries between them
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::chain const joined{gs::constant{1}, 100};
