#pragma once
/// All schedules. `./dev generate` writes this header from the names of the files beside it.

#include <gradstep/schedules/by_epochs.hpp>
#include <gradstep/schedules/by_samples.hpp>
#include <gradstep/schedules/chain.hpp>
#include <gradstep/schedules/clamped.hpp>
#include <gradstep/schedules/constant.hpp>
#include <gradstep/schedules/cosine.hpp>
#include <gradstep/schedules/cosine_restarts.hpp>
#include <gradstep/schedules/cyclic.hpp>
#include <gradstep/schedules/exponential.hpp>
#include <gradstep/schedules/external.hpp>
#include <gradstep/schedules/inverse_time.hpp>
#include <gradstep/schedules/linear.hpp>
#include <gradstep/schedules/natural_exp.hpp>
#include <gradstep/schedules/noam.hpp>
#include <gradstep/schedules/one_cycle.hpp>
#include <gradstep/schedules/one_cycle_momentum.hpp>
#include <gradstep/schedules/piecewise.hpp>
#include <gradstep/schedules/poly.hpp>
#include <gradstep/schedules/polynomial.hpp>
#include <gradstep/schedules/scaled.hpp>
#include <gradstep/schedules/warmup.hpp>
#include <gradstep/schedules/warmup_stable_decay.hpp>
