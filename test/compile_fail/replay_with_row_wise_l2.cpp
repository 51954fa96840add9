// expected-error: gradstep: replay: a coupled regularizer gives a row-wise rule a gradient on every step
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::table const rows{gs::make_updater<float>(gs::rowwise_adam{}, gs::l2{0.1}, gs::constant{1e-3}), 10, 4,
                     gs::replay{100}};
