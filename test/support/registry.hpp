#pragma once
/// The rules that the property tests run over. A new rule is a line here and its formula in oracle.hpp; what tests need
/// to know of it beyond that (does a weight without gradient stand still, is it near a threshold) the oracle says.

#include <tuple>
#include <type_traits>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/oracle.hpp>

namespace gs = gradstep;

template <class Oracle, class Rule> struct entry {
    using oracle = Oracle;
    using rule = Rule;
    std::vector<Rule> settings; // the defaults first, then what reaches other branches
};
template <class Oracle, class Rule, class... More> entry<Oracle, Rule> line(Rule defaults, More... more) {
    return {{defaults, more...}};
}

inline auto registry() {
    return std::tuple{
        line<oracle::sgd>(gs::sgd{}),
        line<oracle::momentum>(gs::momentum{}, gs::momentum{.mu = 0}),
        line<oracle::nesterov>(gs::nesterov{}, gs::nesterov{.mu = 0.5}),
        line<oracle::adagrad>(gs::adagrad{}, gs::adagrad{.epsilon = 0, .initial_accumulator = 0.1}),
        line<oracle::adam>(gs::adam{}, gs::adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0}),
        line<oracle::ftrl>(gs::ftrl{}, gs::ftrl{.l1 = 0.5, .l2 = 0.01},
                           gs::ftrl{.l1 = 0.1, .beta = 0, .initial_accumulator = 0.1}),
        line<oracle::rowwise_adagrad>(gs::rowwise_adagrad{},
                                      gs::rowwise_adagrad{.epsilon = 0, .initial_accumulator = 0.1}),
        line<oracle::rowwise_adam>(gs::rowwise_adam{}, gs::rowwise_adam{.beta1 = 0, .beta2 = 0.5, .epsilon = 0}),
        line<oracle::lars>(gs::lars{}, gs::lars{.mu = 0, .trust = 0.5, .epsilon = 0.25}),
        line<oracle::lamb>(gs::lamb{}, gs::lamb{.beta1 = 0, .beta2 = 0.5, .epsilon = 0, .decay = 0.25}),
    };
}

/// For TEMPLATE_LIST_TEST_CASE: TestType is the entry of one rule, and `settings_of<TestType>()` its rules.
using registered = decltype(registry());
/// Those of them whose rules look at whole tensors.
using registered_row_wise = decltype([]<class... Entry>(std::type_identity<std::tuple<Entry...>>) {
    return std::tuple_cat(
        std::conditional_t<gs::row_wise_rule<typename Entry::rule>, std::tuple<Entry>, std::tuple<>>()...);
}(std::type_identity<registered>()));
template <class Entry> auto settings_of() { return std::get<Entry>(registry()).settings; }
