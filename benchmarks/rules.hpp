#pragma once
/// The rules of tables of measurements: all rules of the tests' registry, each with its first
/// setting, the defaults.
#include <string>

#include <gradstep/gradstep.hpp>
#include <support/registry.hpp>

/// "adam", "averaged{adam, ema}" or "agc{adam}".
template <class Rule> std::string name_of(Rule const& rule) {
    std::string const text = gs::describe(rule), name = text.substr(0, text.find('{'));
    if constexpr (requires { rule.average; })
        return name + "{" + name_of(rule.rule) + ", " + name_of(rule.average) + "}";
    else if constexpr (requires { rule.rule; }) return name + "{" + name_of(rule.rule) + "}";
    else return name;
}
