// One sentence for the step, and one for the parameter.
// expected-error: gradstep: buffer: a raw pointer has no number of elements; expected std::span
// expected-errors: 2
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void update(float* w, float* g, float* m, float* v) {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1});
    optimizer.next_step()(w, g, m, v);
    gs::parameter weights{optimizer, w};
}
