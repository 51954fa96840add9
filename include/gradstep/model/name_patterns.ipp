#pragma once

namespace gradstep::inline GRADSTEP_ABI {
GRADSTEP_DEFINE name_patterns::name_patterns(std::span<std::string_view const> patterns) {
    if (patterns.empty()) detail::fail<value_error>({"name_patterns"}, {"there is no pattern"}, {"one at least"});
    for (std::string_view const each : patterns) add(each);
}

GRADSTEP_DEFINE name_patterns::name_patterns(std::vector<std::string> const& patterns)
    : name_patterns(std::vector<std::string_view>(patterns.begin(), patterns.end())) {}

GRADSTEP_DEFINE void name_patterns::add(std::string_view text) {
    if (text.empty())
        detail::fail<value_error>({"name_patterns"}, {"a pattern is empty"},
                                  {"a name, or a pattern such as \"*.bias\""});
    for (pattern const& other : patterns_)
        if (other.text == text)
            detail::fail<value_error>({"name_patterns"}, {detail::in_quotes(text), " is given twice"},
                                      {"each pattern once"});
    patterns_.push_back({std::string(text)});
}

GRADSTEP_DEFINE bool name_patterns::match(std::string_view name) {
    bool found = false;
    for (pattern& each : patterns_)
        if (detail::matches(each.text, name)) found = each.is_used = true;
    return found;
}

GRADSTEP_DEFINE void name_patterns::require_all_used() const {
    for (pattern const& each : patterns_)
        if (!each.is_used)
            detail::fail<value_error>({"name_patterns"}, {detail::in_quotes(each.text), " matches no parameter"},
                                      {"a pattern that matches a name"});
}
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE bool matches(std::string_view pattern, std::string_view name) {
    // Behind the character of UTF-8 that begins at a byte of the name.
    auto const after = [&](std::size_t at) {
        do ++at;
        while (at < name.size() && (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80);
        return at;
    };
    std::size_t p = 0, n = 0, after_star = pattern.npos, retry = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            after_star = ++p;
            retry = n;
        } else if (p < pattern.size() && pattern[p] == '?') {
            ++p;
            n = after(n);
        } else if (p < pattern.size() && pattern[p] == name[n]) {
            ++p, ++n;
        } else if (after_star != pattern.npos) { // the last star takes one more character
            p = after_star;
            n = retry = after(retry);
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
