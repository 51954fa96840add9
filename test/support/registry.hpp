#pragma once
/// The rules that the tests run over: every rule of the library, and a few with averages or in agc. Beside the oracle, in
/// support/oracles, the function `line_of(gs::RULE)` gives its line: the oracle and the settings to test. CMake makes a
/// file of test/properties for each such function.

#include <tuple>

#include <gradstep/gradstep.hpp>

#include <support/oracle.hpp>

namespace gs = gradstep;

// "no matching function for call to line_of": the rule that is named there has no line in support/oracles. Rules that use
// shapes have none: their oracles are in the tests of test/rules with their names.
template <class Rule> constexpr auto line_or_none() {
    if constexpr (gs::shaped_rule<Rule>) return std::tuple<>();
    else return std::tuple{oracle::line_of(Rule{})};
}
template <class... Rule> constexpr auto lines_of(gs::type_list<Rule...>) {
    return std::tuple_cat(line_or_none<Rule>()...);
}
constexpr auto registry() {
    return std::tuple_cat(lines_of(gs::rules{}), lines_of(oracle::averaged_rules{}), lines_of(oracle::clipped_rules{}));
}

/// For TEMPLATE_LIST_TEST_CASE: TestType is the entry of one rule, and `settings_of<TestType>()` its rules.
using registered = decltype(registry());
template <class Entry> constexpr auto settings_of() { return oracle::line_of(typename Entry::rule{}).settings; }
