#pragma once
/// The rules that the property tests run over. A new rule is a line here and its formula in oracle.hpp; what tests need
/// to know of it beyond that (does a weight without gradient stand still, is it near a threshold) the oracle says.

#include <tuple>
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
    };
}

/// For TEMPLATE_LIST_TEST_CASE: TestType is the entry of one rule, and `settings_of<TestType>()` its rules.
using registered = decltype(registry());
template <class Entry> auto settings_of() { return std::get<Entry>(registry()).settings; }
