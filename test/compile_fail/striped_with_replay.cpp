// A replayed step is read from the history while other writers add to it.
// expected-error: gradstep: striped: replay reads the history while other threads add to it; expected gs::exact
#include <gradstep/gradstep.hpp>
#include <gradstep/striped.hpp>

namespace gs = gradstep;

void share() {
    gs::striped const rows{gs::table{gs::make_updater<float>(gs::adam{}, gs::constant{1e-3}), 10, 4, gs::replay{5}}};
}
