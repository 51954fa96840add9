#pragma once
/// The optimizers of the models under test: every kind of element, state and rule that a model
/// tells apart.

#include <gradstep/gradstep.hpp>

namespace model_optimizers {

namespace gs = gradstep;

inline auto const adam = gs::make_updater<float>(gs::adam{}, gs::l2{0.5}, gs::constant{0.125});
inline auto const mixed =
    gs::make_updater<gs::mixed<gs::bfloat16>>(gs::momentum{}, gs::decoupled{0.5}, gs::constant{0.125});
inline auto const stochastic = gs::make_updater<gs::stochastic<gs::bfloat16>>(gs::sgd{}, gs::constant{0.01});
inline auto const ftrl = gs::make_updater<double>(gs::ftrl{.l1 = 0.01}, gs::constant{0.125});
inline auto const lamb = gs::make_updater<float>(gs::lamb{}, gs::l2{0.25}, gs::constant{0.125});
inline auto const sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{0.125});

} // namespace model_optimizers
