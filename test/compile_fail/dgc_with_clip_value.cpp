// expected-error: gradstep: dgc_momentum takes none, l1, l2 or elastic_net as its regularizer, which acts on the gradient of each trainer, and clips by norm only
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const step = gs::make_updater<float>(gs::dgc_momentum{}, gs::clip_value{1}, gs::constant{1}).next_step();
