// expected-error: gradstep: proximal: the argument is no penalty; expected l1, l2 or elastic_net
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::proximal const twice{gs::proximal{gs::l1{1}}};
