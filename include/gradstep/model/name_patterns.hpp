#pragma once
#include <span>
#include <vector>

#include <gradstep/base/error.hpp>

namespace gradstep::inline GRADSTEP_ABI {
/// Patterns of parameter names, to give groups of parameters different optimizers. In a pattern,
/// `*` matches any text, also none, and `?` matches one character, in UTF-8. All other characters
/// match themselves.
///
///     gs::name_patterns adamw_takes{"*embed*", "*.bias", "*norm*", "head.*"};
///     for (auto const& x : tensors)
///         if (adamw_takes.match(x.name)) net.add(x.name, gs::parameter{adamw, x.values});
///         else net.add(x.name, gs::parameter{muon, x.values, {.shape = {x.rows, x.cols}}});
///     adamw_takes.require_all_used();
class name_patterns {
public:
    /// Throws value_error if there is no pattern, or a pattern is empty or given twice.
    name_patterns(std::initializer_list<std::string_view> patterns)
        : name_patterns(std::span<std::string_view const>(patterns.begin(), patterns.size())) {}
    explicit name_patterns(std::span<std::string_view const> patterns);
    explicit name_patterns(std::vector<std::string> const& patterns);

    /// Whether a name matches a pattern. It remembers all patterns that the name matches.
    bool match(std::string_view name);
    /// Throws value_error for the first pattern that no name has matched: a pattern with a typing
    /// error would otherwise be ignored in silence.
    void require_all_used() const;

private:
    struct pattern {
        std::string text;
        bool is_used = false;
    };
    void add(std::string_view text);

    std::vector<pattern> patterns_;
};
} // namespace gradstep::inline GRADSTEP_ABI

namespace gradstep::detail::inline GRADSTEP_ABI {
// Whether a name matches one pattern.
bool matches(std::string_view pattern, std::string_view name);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/model/name_patterns.ipp>
#endif
