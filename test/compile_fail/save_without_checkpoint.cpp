// expected-error: gradstep: save and load of files: the code is not included; expected an include of <gradstep/checkpoint.hpp>
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

using optimizer = decltype(gs::make_updater<float>(gs::sgd{}, gs::constant{0.1}));
void save(gs::parameter<optimizer> const& weights) { weights.save("weights.safetensors"); }
