#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include <gradstep/state/saved_state.hpp>

// What a file says of a parameter besides its tensors, as JSON: docs/checkpoints.md.
namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

inline constexpr std::size_t longest_description = std::size_t{1} << 20;

// The policies of a state as a configuration. Nothing that a run needs: none for what may be as
// long as a schedule's rates.
std::string policies_in_file(saved_state const& of);
std::string description_of(saved_state const& of, std::string policies);

struct read_description {
    saved_state state; // without its tensors
    // The tensors that it has, by their slots: that of the values first, unless those are
    // another's.
    std::vector<std::string> slots;
};
// The description of the parameter `name`; `where` is for errors.
read_description description_from(std::string const& where, std::string name, std::string const& text);

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep

#if GRADSTEP_HEADER_ONLY
#include <gradstep/io/description.ipp>
#endif
