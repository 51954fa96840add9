// The control: what the other files of this folder do wrong, done right. It has to compile.
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void control(std::vector<float>& w, std::vector<float> const& g, std::vector<float>& m, std::vector<float>& v) {
    auto optimizer = gs::make_updater<float>(gs::adam{}, gs::constant{1e-3});
    optimizer.next_step()(w, g, m, v);
}
