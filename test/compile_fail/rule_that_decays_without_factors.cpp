// A rule whose state decays says by what.
// expected-error: gradstep: rule: at_zero_gradient is decays_state, and its factors are missing; expected
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

struct forgetful : gs::adagrad {
    static constexpr auto at_zero_gradient = gs::zero_gradient_effect::decays_state;
};
gs::table const rows{gs::make_updater<float>(forgetful{}, gs::constant{1e-3}), 10, 4, gs::exact{}};
