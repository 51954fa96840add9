#pragma once
/// Presets with the defaults and formulas of other frameworks, each in a namespace of its own:
/// `gs::dialects::torch::adamw`.
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
