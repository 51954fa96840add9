#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gradstep/state/saved_state.hpp>

// Checkpoint files for owners that are compiled without JSON, such as servers. io/checkpoint.hpp
// has the definitions: a header-only program that saves or loads must include it, and
// gradstep::compiled contains them.
namespace gradstep {
namespace detail {
inline namespace GRADSTEP_ABI {

// A checkpoint that is read.
class checkpoint_file {
public:
    virtual ~checkpoint_file() = default;
    // What the file has under this name, for as long as it is open. Throws value_error if it has
    // nothing.
    virtual std::unique_ptr<saved_source> of(std::string_view name) const = 0;
    // Throws value_error if the file has a state whose name none of these has.
    virtual void require_nothing_else(std::span<saved_state const> all) const = 0;
};
std::unique_ptr<checkpoint_file> open_checkpoint(std::string const& path);
void write_checkpoint(std::string const& path, std::span<saved_state const> all);

} // namespace GRADSTEP_ABI
} // namespace detail
} // namespace gradstep
