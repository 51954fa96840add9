// expected-error: gradstep: proximal goes around l1, l2 or elastic_net, and not around another proximal
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::proximal const twice{gs::proximal{gs::l1{1}}};
