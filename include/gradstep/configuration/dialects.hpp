#pragma once
#include <gradstep/dialects/bert.hpp>
#include <gradstep/dialects/deepspeed.hpp>
#include <gradstep/dialects/dlib.hpp>
#include <gradstep/dialects/dynamicemb.hpp>
#include <gradstep/dialects/ensmallen.hpp>
#include <gradstep/dialects/fbgemm.hpp>
#include <gradstep/dialects/keras.hpp>
#include <gradstep/dialects/mlx.hpp>
#include <gradstep/dialects/optax.hpp>
#include <gradstep/dialects/paddle.hpp>
#include <gradstep/dialects/tensorflow.hpp>
#include <gradstep/dialects/timm.hpp>
#include <gradstep/dialects/torch.hpp>

namespace gradstep {
/// Calls f(presets) for every framework: a `dialects::preset_list`, whose `dialect` is the name of
/// the framework.
template <class F> constexpr void for_each_dialect(F const& f) {
    f(dialects::bert::presets);
    f(dialects::deepspeed::presets);
    f(dialects::dlib::presets);
    f(dialects::dynamicemb::presets);
    f(dialects::ensmallen::presets);
    f(dialects::fbgemm::presets);
    f(dialects::keras::presets);
    f(dialects::mlx::presets);
    f(dialects::optax::presets);
    f(dialects::paddle::presets);
    f(dialects::tensorflow::presets);
    f(dialects::timm::presets);
    f(dialects::torch::presets);
}
} // namespace gradstep
