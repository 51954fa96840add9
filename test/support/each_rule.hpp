#pragma once
/// Test cases that are there once for each rule of the registry, so that a rule that fails is named
/// and can be run alone.

#include <string>
#include <vector>

#include <support/catch.hpp>
#include <support/registered_rules.hpp>
#include <support/runs.hpp>

// RULE_TEST_CASE(text, tags) { body }: a test case "NAME: text" for each rule; the body is run for
// each of its settings, which it sees as `rule`.
#define RULE_TEST_CASE(text, tags) RULE_TEST_CASE_BY(JOIN_TOKENS(property_at_line_, __LINE__), text, tags)
#define RULE_TEST_CASE_BY(property, text, tags)                                                                        \
    static void property(runs::rule const& rule);                                                                      \
    [[maybe_unused]] static bool const JOIN_TOKENS(property, _is_registered) =                                         \
        runs::register_property(property, CATCH_INTERNAL_LINEINFO, text, tags);                                        \
    static void property(runs::rule const& rule)
#define JOIN_TOKENS(a, b) JOIN_EXPANDED_TOKENS(a, b)
#define JOIN_EXPANDED_TOKENS(a, b) a##b

namespace runs {

struct registered_rule {
    char const* name;
    rules const& (*settings)();
};
inline constexpr registered_rule registered_rules_in_order[] = {
#define NAMED_RULE(name) {#name, &registered_rules::name},
    FOR_EACH_REGISTERED_RULE(NAMED_RULE)
#undef NAMED_RULE
};

/// A property of one rule. A class and a loop, since a thousand functions and calls would take a
/// compiler half a minute.
class property_of_rule final : public Catch::ITestInvoker {
public:
    property_of_rule(void (*property)(rule const&), registered_rule of) : property_(property), of_(of) {}
    void invoke() const override {
        for (auto const& setting : of_.settings()) {
            CAPTURE(setting->description());
            property_(*setting);
        }
    }

private:
    void (*property_)(rule const&);
    registered_rule of_;
};
inline bool register_property(void (*property)(rule const&), Catch::SourceLineInfo const& at, char const* text,
                              char const* tags) {
    using invoker = decltype(Catch::makeTestInvoker(static_cast<void (*)()>(nullptr))); // of Catch2 2 or 3
    for (registered_rule const& one : registered_rules_in_order) {
        std::string const name = std::string(one.name) + ": " + text;
        Catch::AutoReg(invoker(new property_of_rule(property, one)), at, Catch::StringRef(), {name, tags});
    }
    return true;
}

/// The rules of the registry that look at whole tensors, each with all of its settings.
inline std::vector<rule const*> row_wise_rules() {
    std::vector<rule const*> out;
    for (registered_rule const& one : registered_rules_in_order)
        for (auto const& rule : one.settings())
            if (rule->row_wise) out.push_back(rule.get());
    return out;
}

} // namespace runs
