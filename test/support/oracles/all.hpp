#pragma once
/// All oracles. `./dev generate` writes this header from the names of the files beside it.

#include <support/oracles/adagrad.hpp>
#include <support/oracles/adam.hpp>
#include <support/oracles/adan.hpp>
#include <support/oracles/ademamix.hpp>
#include <support/oracles/agc.hpp>
#include <support/oracles/averaged.hpp>
#include <support/oracles/cautious.hpp>
#include <support/oracles/common.hpp>
#include <support/oracles/ftrl.hpp>
#include <support/oracles/group_wise.hpp>
#include <support/oracles/laprop.hpp>
#include <support/oracles/layer_wise.hpp>
#include <support/oracles/madgrad.hpp>
#include <support/oracles/model_wise.hpp>
#include <support/oracles/momentum.hpp>
#include <support/oracles/noisy.hpp>
#include <support/oracles/optimistic.hpp>
#include <support/oracles/pnm.hpp>
#include <support/oracles/quasi_hyperbolic.hpp>
#include <support/oracles/row_wise.hpp>
#include <support/oracles/schedule_free.hpp>
#include <support/oracles/step_sizes.hpp>
