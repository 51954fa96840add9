// expected-error: gradstep: chain: the first argument is no schedule; expected chain
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::chain const joined{0.5, 100, gs::constant{1}};
