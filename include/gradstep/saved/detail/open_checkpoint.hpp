#pragma once
#include <gradstep/saved/saved_state.hpp>

// Checkpoint files for owners that are compiled without JSON, such as servers. checkpoint.hpp
// has the definitions: a header-only program that saves or loads must include it, and
// gradstep::compiled contains them.
namespace gradstep::detail::inline GRADSTEP_ABI {
// An open checkpoint, for reading.
class checkpoint_file {
public:
    virtual ~checkpoint_file() = default;
    // The state of a name, valid as long as the file is open. Throws value_error if there is none.
    virtual std::unique_ptr<saved_source> of(std::string_view name) const = 0;
    // Throws value_error if the file contains a state with a name that is not in `all`.
    virtual void require_nothing_else(std::span<saved_state const> all) const = 0;
};
std::unique_ptr<checkpoint_file> open_checkpoint(std::string const& path);
void write_checkpoint(std::string const& path, std::span<saved_state const> all);
} // namespace gradstep::detail::inline GRADSTEP_ABI
