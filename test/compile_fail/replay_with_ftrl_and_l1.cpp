// ftrl's z follows the weight that the regularizer moves.
// expected-error: gradstep: replay: the state of this rule follows its weight
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::ftrl{}, gs::proximal{gs::l1{0.1}}, gs::constant{1e-3}), 10, 4,
                     gs::replay{5}};
