// An averager reads weights that other code updates.
// expected-error: gradstep: averager: lookahead and towards_initial change the weights, which other code updates
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void f(std::vector<float> const& weights) {
    gs::averager average{gs::lookahead{}, weights};
    average.add(weights);
}
