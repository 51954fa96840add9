#pragma once

namespace gradstep::detail::inline GRADSTEP_ABI {
GRADSTEP_DEFINE void policy_text::hyperparameter(char const* name) {
    append(name);
    text_ += " = ";
    needs_comma_ = false;
}

GRADSTEP_DEFINE void policy_text::end() {
    if (text_.back() != '{') return end_list();
    text_.pop_back(); // no hyperparameters: only the name
    needs_comma_ = true;
}

GRADSTEP_DEFINE void policy_text::begin_list(std::string_view name) {
    append(name);
    text_ += '{';
    needs_comma_ = false;
}

GRADSTEP_DEFINE void policy_text::end_list() {
    text_ += '}';
    needs_comma_ = true;
}

GRADSTEP_DEFINE void policy_text::append(std::string_view item) {
    if (needs_comma_) text_ += ", ";
    text_ += item;
    needs_comma_ = true;
}
} // namespace gradstep::detail::inline GRADSTEP_ABI
