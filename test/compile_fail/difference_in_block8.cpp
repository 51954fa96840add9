// A difference of a step whose state is kept in blocks.
// expected-error: gradstep: step.difference: the state is kept in blocks
#include <gradstep/gradstep.hpp>

#include <span>
#include <vector>

namespace gs = gradstep;

void update(std::vector<float>& out, std::vector<float>& w, std::vector<float>& g, std::span<gs::coded_block> m) {
    gs::make_updater<gs::block8<float>>(gs::momentum{}, gs::constant{1}).next_step().difference(out, w, g, m);
}
