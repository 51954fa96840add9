#pragma once
#include <gradstep/saved/saved_state.hpp>

// The description of a parameter in a file, as JSON: everything except its tensors. See
// docs/reference/file_formats.md.
namespace gradstep::detail::inline GRADSTEP_ABI {
inline constexpr std::size_t longest_description = std::size_t{1} << 20;

// The policies of a state as a configuration. Empty if they are longer than a quarter of
// longest_description, as with a schedule of many rates.
std::string policies_in_file(saved_state const& of);
// Visits them. `where` is for the error if they are no JSON.
void visit_policies_in_file(std::string const& where, std::string const& policies, policy_visitor& to);
std::string description_of(saved_state const& of, std::string policies);

struct read_description {
    saved_state state; // without its tensors
    // The slots of its tensors. The values come first, unless they belong to another parameter.
    std::vector<std::string> slots;
};
// Reads the description of the parameter `name`. `where` is for errors.
read_description description_from(std::string const& where, std::string name, std::string const& text);
} // namespace gradstep::detail::inline GRADSTEP_ABI

#if GRADSTEP_HEADER_ONLY
#include <gradstep/saved/detail/description.ipp>
#endif
