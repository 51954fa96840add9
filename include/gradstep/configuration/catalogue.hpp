#pragma once
#include <gradstep/base/type_list.hpp>
#include <gradstep/configuration/any_schedule.hpp>
#include <gradstep/configuration/registry.hpp>
#include <gradstep/schedules/all.hpp>

namespace gradstep {
/// The schedules of a configuration, as types, in addition to the policies of
/// configuration/registry.hpp. A schedule around others can contain any schedule.
using schedules = type_list<by_epochs<any_schedule>, by_samples<any_schedule>,
                            chain<std::vector<any_schedule>, std::vector<std::int64_t>>, clamped<any_schedule>,
                            constant, cosine, cosine_restarts, cyclic, exponential, external, inverse_time, linear,
                            natural_exp, noam, one_cycle, one_cycle_momentum, piecewise, poly, polynomial,
                            scaled<any_schedule>, warmup<any_schedule>, warmup_stable_decay>;
} // namespace gradstep
