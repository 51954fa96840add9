// expected-error: gradstep: compress: the regularizer reads the parameter, which is missing; expected compress\(w, g, u, v\)
// expected-errors: 1
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <vector>

namespace gs = gradstep;

void compress(std::vector<float>& g, std::vector<float>& u, std::vector<float>& v) {
    auto optimizer = gs::make_updater<float>(gs::dgc_momentum{}, gs::l2{1}, gs::constant{1});
    optimizer.next_step().compress(g, u, v);
}
