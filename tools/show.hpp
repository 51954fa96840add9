#pragma once
#include <string>

namespace gradstep::tools {

/// What a checkpoint has, in lines of text: of each parameter or table its size, element, rule,
/// slots, clock and policies. No data is read. Throws value_error for a file that is no checkpoint
/// of gradstep, and io_error.
std::string show(std::string const& path);

} // namespace gradstep::tools
