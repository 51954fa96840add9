// expected-error: gradstep: averaged: a part is scheduled
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::averaged const rule{gs::scheduled{gs::adam{}, gs::moving<"beta1">(gs::constant{0.5})}, gs::ema{}};
