#pragma once
/// All rules. `./dev generate` writes this header from the names of the files beside it.

#include <gradstep/base/type_list.hpp>
#include <gradstep/rules/adabelief.hpp>
#include <gradstep/rules/adabound.hpp>
#include <gradstep/rules/adadelta.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/adagrad.hpp>
#include <gradstep/rules/adam.hpp>
#include <gradstep/rules/adamax.hpp>
#include <gradstep/rules/adan.hpp>
#include <gradstep/rules/adapnm.hpp>
#include <gradstep/rules/add_delta.hpp>
#include <gradstep/rules/ademamix.hpp>
#include <gradstep/rules/adopt.hpp>
#include <gradstep/rules/amsgrad.hpp>
#include <gradstep/rules/came.hpp>
#include <gradstep/rules/cautious_adam.hpp>
#include <gradstep/rules/cautious_lion.hpp>
#include <gradstep/rules/centered_momentum_rmsprop.hpp>
#include <gradstep/rules/centered_rmsprop.hpp>
#include <gradstep/rules/cocob.hpp>
#include <gradstep/rules/constant_rate_ftrl.hpp>
#include <gradstep/rules/cowclip_adagrad.hpp>
#include <gradstep/rules/dadapt_adam.hpp>
#include <gradstep/rules/dadapt_sgd.hpp>
#include <gradstep/rules/decayed_adagrad.hpp>
#include <gradstep/rules/dgc_momentum.hpp>
#include <gradstep/rules/dog.hpp>
#include <gradstep/rules/dowg.hpp>
#include <gradstep/rules/fromage.hpp>
#include <gradstep/rules/ftml.hpp>
#include <gradstep/rules/ftrl.hpp>
#include <gradstep/rules/group_adagrad.hpp>
#include <gradstep/rules/group_ftrl.hpp>
#include <gradstep/rules/lamb.hpp>
#include <gradstep/rules/laprop.hpp>
#include <gradstep/rules/lars.hpp>
#include <gradstep/rules/lion.hpp>
#include <gradstep/rules/madgrad.hpp>
#include <gradstep/rules/momentum.hpp>
#include <gradstep/rules/momentum_rmsprop.hpp>
#include <gradstep/rules/momentum_sm3.hpp>
#include <gradstep/rules/momo.hpp>
#include <gradstep/rules/momo_adam.hpp>
#include <gradstep/rules/muon.hpp>
#include <gradstep/rules/nadam.hpp>
#include <gradstep/rules/nesterov.hpp>
#include <gradstep/rules/nesterov_adam.hpp>
#include <gradstep/rules/noisy_sgd.hpp>
#include <gradstep/rules/novograd.hpp>
#include <gradstep/rules/optimistic_adam.hpp>
#include <gradstep/rules/optimistic_sgd.hpp>
#include <gradstep/rules/pnm.hpp>
#include <gradstep/rules/polyak_sgd.hpp>
#include <gradstep/rules/prodigy.hpp>
#include <gradstep/rules/proximal_adagrad.hpp>
#include <gradstep/rules/qhadam.hpp>
#include <gradstep/rules/qhm.hpp>
#include <gradstep/rules/radam.hpp>
#include <gradstep/rules/rmsprop.hpp>
#include <gradstep/rules/rowwise_adagrad.hpp>
#include <gradstep/rules/rowwise_adam.hpp>
#include <gradstep/rules/rowwise_rmsprop.hpp>
#include <gradstep/rules/rprop.hpp>
#include <gradstep/rules/schedule_free_adam.hpp>
#include <gradstep/rules/schedule_free_radam.hpp>
#include <gradstep/rules/schedule_free_sgd.hpp>
#include <gradstep/rules/sgd.hpp>
#include <gradstep/rules/sgld.hpp>
#include <gradstep/rules/sm3.hpp>
#include <gradstep/rules/stable_adamw.hpp>
#include <gradstep/rules/two_buffer_adagrad.hpp>
#include <gradstep/rules/yogi.hpp>

namespace gradstep {

// clang-format off
/// The types of all rules. Configurations, the C library and the tests use this list.
using rules = type_list<adabelief, adabound, adadelta, adafactor, adagrad, adam, adamax, adan, adapnm, add_delta,
                        ademamix, adopt, amsgrad, came, cautious_adam, cautious_lion, centered_momentum_rmsprop,
                        centered_rmsprop, cocob, constant_rate_ftrl, cowclip_adagrad, dadapt_adam, dadapt_sgd,
                        decayed_adagrad, dgc_momentum, dog, dowg, fromage, ftml, ftrl, group_adagrad, group_ftrl, lamb,
                        laprop, lars, lion, madgrad, momentum, momentum_rmsprop, momentum_sm3, momo, momo_adam, muon,
                        nadam, nesterov, nesterov_adam, noisy_sgd, novograd, optimistic_adam, optimistic_sgd, pnm,
                        polyak_sgd, prodigy, proximal_adagrad, qhadam, qhm, radam, rmsprop, rowwise_adagrad,
                        rowwise_adam, rowwise_rmsprop, rprop, schedule_free_adam, schedule_free_radam,
                        schedule_free_sgd, sgd, sgld, sm3, stable_adamw, two_buffer_adagrad, yogi>;
// clang-format on

} // namespace gradstep
