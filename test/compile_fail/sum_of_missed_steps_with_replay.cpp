// What replay does has no sum in closed form.
// expected-error: gradstep: the sum of a row over the steps that it missed has no closed form with replay
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void sum() {
    gs::table const rows{gs::make_updater<float>(gs::adam{}, gs::constant{1e-3}), 10, 4, gs::replay{5}};
    float out[4];
    rows.missed_sum(3, std::span<float>(out));
}
