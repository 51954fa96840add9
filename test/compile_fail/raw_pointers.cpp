// expected-error: gradstep: a raw pointer does not say how many elements there are
// expected-errors: 1
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void update(float* w, float* g, float* m, float* v) {
    gs::make_updater<float>(gs::adam{}, gs::constant{1}).next_step()(w, g, m, v);
}
