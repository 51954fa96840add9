#pragma once
/// The elements of tests that compile a policy for each of them. Without `thorough`, one for each
/// arithmetic: the properties of all elements are tested with a rule of each mechanism
/// (support/runs.hpp).

#include <tuple>

#include <gradstep/gradstep.hpp>

#if defined(GRADSTEP_TEST_FEWER_PAIRS)
using elements_of_policies = std::tuple<float, gradstep::stochastic<gradstep::bfloat16>>;
#else
using elements_of_policies = std::tuple<float, double, gradstep::bfloat16, gradstep::mixed<gradstep::bfloat16>,
                                        gradstep::stochastic<gradstep::bfloat16>>;
#endif
