// expected-error: gradstep: compressed_parameter: the rule compresses no gradients; expected dgc_momentum
// expected-errors: 1
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void compress(std::vector<float>& w) {
    gs::compressed_parameter weights{gs::make_updater<float>(gs::momentum{}, gs::constant{1}), w};
}
