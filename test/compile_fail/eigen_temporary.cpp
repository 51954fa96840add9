// A temporary matrix as parameter would be updated and thrown away; a temporary map is as good as a variable.
// expected-error: gradstep: buffer: the memory of a temporary is gone after this call
// expected-errors: 1
#include <gradstep/adapt/eigen.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void update(float* w, Eigen::MatrixXf const& g) {
    auto const step = gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step();
    step(Eigen::Map<Eigen::MatrixXf>(w, g.rows(), g.cols()), g);
    step(Eigen::MatrixXf(g), g);
}
