// An expression of Eigen has no memory to read.
// expected-error: gradstep: buffer: this Eigen expression has no memory; expected a matrix, array, block or map; evaluate it first, x.eval\(\)
// expected-errors: 1
#include <gradstep/adapt/eigen.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

void update(Eigen::MatrixXf& w, Eigen::MatrixXf const& g) {
    gs::make_updater<float>(gs::sgd{}, gs::constant{1}).next_step()(w, g * 2.0f);
}
