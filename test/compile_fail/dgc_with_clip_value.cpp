// expected-error: gradstep: dgc_momentum: the regularizer or the clip does not act on the gradient of each trainer; expected none, l1, l2 or elastic_net, and local_grad_clip_norm to clip
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

auto const step = gs::make_updater<float>(gs::dgc_momentum{}, gs::clip_value{1}, gs::constant{1}).next_step();
