// A row_updater contains no rows.
// expected-error: gradstep: striped: a row_updater has no rows; expected gs::striped{rows, memory}
#include <gradstep/gradstep.hpp>
#include <gradstep/striped.hpp>

namespace gs = gradstep;

void share() { gs::striped const rows{gs::row_updater{gs::make_updater<float>(gs::sgd{}, gs::constant{1e-3}), 10, 4}}; }
