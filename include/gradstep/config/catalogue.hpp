#pragma once
#include <cstdint>
#include <vector>

#include <gradstep/config/any_schedule.hpp>
#include <gradstep/config/registry.hpp>
#include <gradstep/core/type_list.hpp>
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
#include <gradstep/schedules/piecewise.hpp>
#include <gradstep/schedules/poly.hpp>
#include <gradstep/schedules/polynomial.hpp>
#include <gradstep/schedules/scaled.hpp>
#include <gradstep/schedules/warmup.hpp>
#include <gradstep/schedules/warmup_stable_decay.hpp>

namespace gradstep {

/// The schedules that a configuration may name, as types, besides the policies of config/registry.hpp. Schedules around others have any
/// schedule inside.
using schedules =
    type_list<by_epochs<any_schedule>, by_samples<any_schedule>,
              chain<std::vector<any_schedule>, std::vector<std::int64_t>>, clamped<any_schedule>, constant, cosine,
              cosine_restarts, cyclic, exponential, external, inverse_time, linear, natural_exp, noam, one_cycle,
              piecewise, poly, polynomial, scaled<any_schedule>, warmup<any_schedule>, warmup_stable_decay>;

} // namespace gradstep
