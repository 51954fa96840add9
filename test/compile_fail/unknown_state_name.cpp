// expected-error: gradstep: state: the updater has no state slot of this name; expected one of
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

float first(std::vector<float> const& initial) {
    gs::parameter weights{gs::make_updater<float>(gs::adam{}, gs::constant{1}), initial};
    return weights.state<"q">()[0];
}
