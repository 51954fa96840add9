// A 16-bit element keeps its state in float.
// expected-error: gradstep: buffer: its element type is not the type that the updater stores there; expected the same type
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void update(std::vector<gs::bfloat16>& w, std::vector<gs::bfloat16>& g, std::vector<gs::bfloat16>& m) {
    gs::make_updater<gs::bfloat16>(gs::momentum{}, gs::constant{1}).next_step()(w, g, m);
}
