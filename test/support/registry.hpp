#pragma once
/// The rules that the property tests run over. A new rule is a line here and its formula in oracle.hpp; what tests need
/// to know of it beyond that (does a weight without gradient stand still, is it near a threshold) the oracle says.
/// CMake reads this file: each `line<oracle::NAME>(` becomes a file of test/properties, and NAME the name of its tests.

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>

#include <gradstep/gradstep.hpp>

#include <support/oracle.hpp>

namespace gs = gradstep;

template <class Oracle, class Rule, std::size_t N> struct entry {
    using oracle = Oracle;
    using rule = Rule;
    std::array<Rule, N> settings; // the defaults first, then what reaches other branches
};
template <class Oracle, class Rule, class... More>
constexpr entry<Oracle, Rule, 1 + sizeof...(More)> line(Rule defaults, More... more) {
    return {{defaults, more...}};
}

constexpr auto registry() {
    using enum gs::epsilon;
    constexpr auto rate_inside = gs::learning_rate::inside;
    constexpr auto corrected = gs::maximum::corrected;
    constexpr auto next_step = gs::lookahead::next_step;
    return std::tuple{
        line<oracle::sgd>(gs::sgd{}),
        line<oracle::add_delta>(gs::add_delta{}),
        line<oracle::momentum>(gs::momentum{}, gs::momentum{.mu = 0}, gs::momentum{.mu = 0.5, .dampening = 0.25},
                               gs::momentum{.dampening = 0.1, .rate_place = rate_inside}),
        line<oracle::nesterov>(gs::nesterov{}, gs::nesterov{.mu = 0.5}, gs::nesterov{.mu = 0.5, .dampening = 0.25},
                               gs::nesterov{.dampening = 0.1, .rate_place = rate_inside}),
        line<oracle::dgc_momentum>(gs::dgc_momentum{.rampup_begin_step = 1'000'000},
                                   gs::dgc_momentum{.mu = 0.5, .rampup_begin_step = 1'000'000, .nesterov = true}),
        line<oracle::adagrad>(gs::adagrad{}, gs::adagrad{.epsilon = 0, .initial_accumulator = 0.1},
                              gs::adagrad{.epsilon = 1e-7, .epsilon_place = inside}),
        line<oracle::two_buffer_adagrad>(gs::two_buffer_adagrad{},
                                         gs::two_buffer_adagrad{.epsilon = 0, .initial_accumulator = 0.1, .period = 3},
                                         gs::two_buffer_adagrad{.epsilon = 1e-7, .period = 3, .epsilon_place = inside}),
        line<oracle::decayed_adagrad>(gs::decayed_adagrad{}, gs::decayed_adagrad{.rho = 0.5, .epsilon = 1e-3}),
        line<oracle::proximal_adagrad>(gs::proximal_adagrad{}, gs::proximal_adagrad{.l1 = 0.01, .l2 = 0.25},
                                       gs::proximal_adagrad{.l1 = 0.5, .initial_accumulator = 0}),
        line<oracle::adadelta>(gs::adadelta{}, gs::adadelta{.rho = 0.5, .epsilon = 1e-3}),
        line<oracle::rmsprop>(gs::rmsprop{}, gs::rmsprop{.rho = 0.5, .initial_accumulator = 1},
                              gs::rmsprop{.epsilon = 1e-3, .epsilon_place = inside}),
        line<oracle::centered_rmsprop>(gs::centered_rmsprop{},
                                       gs::centered_rmsprop{.rho = 0.5, .epsilon = 1e-3, .initial_accumulator = 1},
                                       gs::centered_rmsprop{.epsilon = 1e-3, .epsilon_place = inside}),
        line<oracle::momentum_rmsprop>(
            gs::momentum_rmsprop{},
            gs::momentum_rmsprop{.rho = 0.5, .mu = 0.5, .initial_accumulator = 1, .rate_place = rate_inside},
            gs::momentum_rmsprop{.epsilon = 1e-3, .epsilon_place = inside}),
        line<oracle::centered_momentum_rmsprop>(
            gs::centered_momentum_rmsprop{},
            gs::centered_momentum_rmsprop{.rho = 0.5, .mu = 0.5, .initial_accumulator = 1, .rate_place = rate_inside},
            gs::centered_momentum_rmsprop{.epsilon = 1e-3, .epsilon_place = inside}),
        line<oracle::adam>(gs::adam{}, gs::adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                           gs::adam{.epsilon = 1e-3, .epsilon_place = inside},
                           gs::adam{.epsilon = 1e-3, .epsilon_place = hat}),
        line<oracle::amsgrad>(gs::amsgrad{}, gs::amsgrad{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                              gs::amsgrad{.epsilon = 1e-3, .epsilon_place = inside},
                              gs::amsgrad{.epsilon = 1e-3, .epsilon_place = hat},
                              gs::amsgrad{.beta2 = 0.5, .maximum_of = corrected},
                              gs::amsgrad{.epsilon = 1e-3, .epsilon_place = inside, .maximum_of = corrected},
                              gs::amsgrad{.epsilon = 1e-3, .epsilon_place = hat, .maximum_of = corrected}),
        line<oracle::nesterov_adam>(
            gs::nesterov_adam{}, gs::nesterov_adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
            gs::nesterov_adam{.epsilon = 1e-3, .epsilon_place = inside, .momentum_bias = next_step},
            gs::nesterov_adam{.epsilon = 1e-3, .epsilon_place = hat}),
        line<oracle::nadam>(gs::nadam{}, gs::nadam{.beta1 = 0.5, .beta2 = 0.5, .epsilon = 0, .momentum_decay = 1},
                            gs::nadam{.epsilon = 1e-3, .momentum_decay = 0, .epsilon_place = inside},
                            gs::nadam{.epsilon = 1e-3, .epsilon_place = hat}),
        line<oracle::radam>(
            gs::radam{}, gs::radam{.beta1 = 0, .beta2 = 0.75, .epsilon = 0}, gs::radam{.beta2 = 0.5, .epsilon = 1e-3},
            gs::radam{.epsilon = 1e-3, .epsilon_place = inside}, gs::radam{.epsilon = 1e-3, .epsilon_place = hat}),
        line<oracle::adamax>(gs::adamax{}, gs::adamax{.beta1 = 0, .beta2 = 0.5, .epsilon = 0},
                             gs::adamax{.epsilon = 1e-3, .epsilon_place = inside},
                             gs::adamax{.epsilon = 1e-3, .epsilon_place = accumulated}),
        line<oracle::adabelief>(gs::adabelief{},
                                gs::adabelief{.beta1 = 0.5, .beta2 = 0.5, .epsilon = 1e-3, .epsilon_root = 0},
                                gs::adabelief{.beta1 = 0, .epsilon = 0, .epsilon_root = 1e-3}),
        line<oracle::yogi>(gs::yogi{}, gs::yogi{.beta1 = 0.5, .beta2 = 0.5, .initial_accumulator = 0}),
        line<oracle::lion>(gs::lion{}, gs::lion{.beta1 = 0.5, .beta2 = 0.5}),
        line<oracle::ftrl>(
            gs::ftrl{}, gs::ftrl{.l1 = 0.5, .l2 = 0.01}, gs::ftrl{.l1 = 0.1, .beta = 0, .initial_accumulator = 0.1},
            gs::ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = -0.75}, gs::ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = 0}),
        line<oracle::constant_rate_ftrl>(
            gs::constant_rate_ftrl{}, gs::constant_rate_ftrl{.l1 = 0.5, .l2 = 0.01},
            gs::constant_rate_ftrl{.l1 = 0.1, .beta = 0, .initial_accumulator = 0.1, .l2_shrinkage = 0.25},
            gs::constant_rate_ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = -0.75},
            gs::constant_rate_ftrl{.l1 = 0.1, .l2 = 0.01, .lr_power = 0, .l2_shrinkage = 0.01}),
        line<oracle::averaged<oracle::adam, oracle::ema>>(
            gs::averaged{gs::adam{}, gs::ema{}}, gs::averaged{gs::adam{.beta1 = 0}, gs::ema{.decay = 0.5}},
            gs::averaged{gs::adam{}, gs::ema{.decay = 0.5, .debias = true}},
            gs::averaged{gs::adam{}, gs::ema{.start = 3}},
            gs::averaged{gs::adam{}, gs::ema{.debias = true, .start = 2}}),
        line<oracle::averaged<oracle::sgd, oracle::polyak>>(gs::averaged{gs::sgd{}, gs::polyak{}},
                                                            gs::averaged{gs::sgd{}, gs::polyak{.start = 2}}),
        line<oracle::averaged<oracle::sgd, oracle::window>>(
            gs::averaged{gs::sgd{}, gs::window{.rate = 0.15}},
            gs::averaged{gs::sgd{}, gs::window{.rate = 1, .min = 1, .max = 1}},
            gs::averaged{gs::sgd{}, gs::window{.rate = 0.5, .min = 2, .max = 4}},
            gs::averaged{gs::sgd{}, gs::window{.rate = 0.15, .min = 3, .max = 50}}),
        line<oracle::rowwise_adagrad>(gs::rowwise_adagrad{},
                                      gs::rowwise_adagrad{.epsilon = 0, .initial_accumulator = 0.1}),
        line<oracle::rowwise_adam>(gs::rowwise_adam{}, gs::rowwise_adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0}),
        line<oracle::lars>(gs::lars{}, gs::lars{.mu = 0, .trust = 0.5, .epsilon = 0.25}),
        line<oracle::lamb>(gs::lamb{}, gs::lamb{.beta1 = 0, .beta2 = 0.5, .epsilon = 0, .decay = 0.25}),
    };
}

/// For TEMPLATE_LIST_TEST_CASE: TestType is the entry of one rule, and `settings_of<TestType>()` its rules.
using registered = decltype(registry());
template <class Entry> constexpr auto settings_of() { return std::get<Entry>(registry()).settings; }
