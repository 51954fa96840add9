#pragma once
/// The rules that the tests run over: every rule of the library, and a few with averages or in agc.
/// Beside the oracle, in support/oracles, the function `line_of(gs::RULE)` gives its line: the
/// oracle and the settings to test. CMake makes a file of test/properties for each such function.

#include <type_traits>

#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>

#include <support/oracle.hpp>

namespace gs = gradstep;

template <class... A, class... B>
constexpr gs::type_list<A..., B...> operator+(gs::type_list<A...>, gs::type_list<B...>) {
    return {};
}

// Rules that use shapes have no line: their oracles are in the tests of test/rules with their
// names.
template <class... Rule> constexpr auto with_a_line(gs::type_list<Rule...>) {
    return (gs::type_list<>{} + ... +
            std::conditional_t<gs::shaped_rule<Rule>, gs::type_list<>, gs::type_list<Rule>>{});
}

/// The rules, for TEMPLATE_LIST_TEST_CASE. A list of rules and no tuple of lines, which would take
/// each file a second to compile.
using registered = decltype(with_a_line(gs::rules{}) + oracle::averaged_rules{} + oracle::clipped_rules{});

/// One rule of each mechanism, for tests that would take long to compile with all of them.
using rules_of_each_mechanism =
    gs::type_list<gs::sgd, gs::momentum, gs::adam, gs::ftrl, gs::rowwise_adagrad, gs::lamb, gs::prodigy, gs::sgld,
                  gs::add_delta, gs::dgc_momentum, gs::schedule_free_adam>;

/// The settings of a rule. "no matching function for call to line_of": the rule that is named there
/// has no line.
template <class Rule> constexpr auto settings_of() { return oracle::line_of(Rule{}).settings; }

/// Calls f(line) for the line of each rule.
template <class F> void for_each_line(F const& f) {
    registered::any([&]<class Rule>() { return f(oracle::line_of(Rule{})), false; });
}
