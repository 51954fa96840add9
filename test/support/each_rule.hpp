#pragma once
/// Test cases that are there once for each rule of the registry, so that a rule that fails is named
/// and can be run alone.

#include <vector>

#include <support/catch.hpp>
#include <support/registered_rules.hpp>
#include <support/runs.hpp>

// RULE_TEST_CASE(text, tags) { body }: a test case "NAME: text" for each rule; the body is run for
// each of its settings, which it sees as `rule`.
#define RULE_TEST_CASE(text, tags) RULE_TEST_CASE_BY(JOIN_TOKENS(property_at_line_, __LINE__), text, tags)
#define RULE_TEST_CASE_BY(property, text, tags)                                                                        \
    static void property(runs::rule const& rule);                                                                      \
    FOR_EACH_REGISTERED_RULE(TEST_CASE_OF_RULE, property, text, tags)                                                  \
    static void property(runs::rule const& rule)
#define TEST_CASE_OF_RULE(name, property, text, tags)                                                                  \
    TEST_CASE(#name ": " text, tags) {                                                                                 \
        for (auto const& setting : registered_rules::name()) {                                                         \
            CAPTURE(setting->description());                                                                           \
            property(*setting);                                                                                        \
        }                                                                                                              \
    }
#define JOIN_TOKENS(a, b) JOIN_EXPANDED_TOKENS(a, b)
#define JOIN_EXPANDED_TOKENS(a, b) a##b

namespace runs {

/// The rules of the registry that look at whole tensors, each with all of its settings.
inline std::vector<rule const*> row_wise_rules() {
#define SETTINGS_OF_RULE(name) &registered_rules::name(),
    std::vector<rule const*> out;
    for (rules const* settings : {FOR_EACH_REGISTERED_RULE(SETTINGS_OF_RULE)})
        for (auto const& rule : *settings)
            if (rule->row_wise) out.push_back(rule.get());
    return out;
#undef SETTINGS_OF_RULE
}

} // namespace runs
