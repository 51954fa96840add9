#pragma once
#include <algorithm>
#include <charconv>
#include <system_error>

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE std::vector<policy_numbers::entry> policy_numbers::all() const {
    std::vector<entry> out = all_;
    auto const replace = [&](std::string_view first, std::string_view by) {
        for (entry& one : out)
            if (one.path.starts_with(first)) one.path.replace(0, first.size(), by);
    };
    if (policies_ == 1) replace("rule", "average");
    if (averages_ == 1) replace("average[0]", "average");
    return out;
}

GRADSTEP_DEFINE std::string policy_numbers::item_path() {
    constexpr std::array kinds{"rule", "regularizer", "schedule", "catch_up"};
    if (open_.empty()) return kinds[std::min(policies_++, kinds.size() - 1)];
    level& in = open_.back();
    if (in.key.empty()) return joined({in.path, "[", in.items++, "]"});
    if (in.is_averaged && in.key == "rule") return in.path;
    if (in.is_averaged && in.key == "average") return joined({"average[", averages_++, "]"});
    return in.path + "." + in.key;
}

GRADSTEP_DEFINE void policy_numbers::begin(std::string_view name) {
    std::string path = item_path();
    if (name == "all_of") path += ".regularizers";
    open_.push_back({.path = std::move(path), .is_averaged = name == "averaged"});
}

GRADSTEP_DEFINE void policy_numbers::hyperparameter(char const* name) {
    open_.back().key = name;
    is_constant_ = false;
}

GRADSTEP_DEFINE void policy_numbers::end() { open_.pop_back(); }

GRADSTEP_DEFINE void policy_numbers::number(double x) { all_.push_back({item_path(), x, is_constant_}); }

// The text is a list of values: a number, a word, or a name with a list of values or of key = value
// in braces.
GRADSTEP_DEFINE void visit_policy_text(policy_visitor& to, std::string_view text) {
    std::size_t depth = 0;
    while (!text.empty()) {
        std::size_t const end = std::min(text.find_first_of("{},="), text.size());
        std::string_view token = text.substr(0, end);
        while (token.starts_with(' ')) token.remove_prefix(1);
        while (token.ends_with(' ')) token.remove_suffix(1);
        char const mark = end == text.size() ? ',' : text[end];
        text.remove_prefix(std::min(end + 1, text.size()));
        if (mark == '{') {
            to.begin(token);
            ++depth;
            continue;
        }
        if (mark == '=') {
            if (depth == 0) return;
            to.hyperparameter(std::string(token).c_str());
            continue;
        }
        if (!token.empty()) {
            double x = 0;
            auto const read = std::from_chars(token.data(), token.data() + token.size(), x);
            bool const is_number = read.ec == std::errc() && read.ptr == token.data() + token.size();
            is_number ? to.number(x) : to.word(token);
        }
        if (mark == '}') {
            if (depth == 0) return;
            to.end();
            --depth;
        }
    }
    while (depth-- != 0) to.end();
}

GRADSTEP_DEFINE void require_same_constants(std::string_view where, policy_numbers const& now, char const* of_now,
                                            policy_numbers const& before, char const* of_before) {
    auto const earlier = before.all();
    for (policy_numbers::entry const& one : now.all()) {
        if (!one.is_constant) continue;
        auto const same_path = [&](policy_numbers::entry const& other) { return other.path == one.path; };
        auto const was = std::find_if(earlier.begin(), earlier.end(), same_path);
        if (was == earlier.end() || was->value == one.value) continue;
        fail<value_error>({where, one.path}, {"is ", one.value, of_now, ", and ", was->value, of_before},
                          {was->value,
                           ", since the state depends on this number; for another one, begin with the values "
                           "and a new state"});
    }
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
