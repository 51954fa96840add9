#pragma once
#include <optional>
#include <string>
#include <vector>

namespace gradstep::tools {

/// Settings that a checkpoint does not contain.
struct export_options {
    std::string optimizer = {};      // the class; empty: the first class that keeps the state of all parameters
    std::optional<double> rate = {}; // the learning rate, in place of the schedules' rate
};

/// Converts the checkpoint `from` to the file `to`, which has parameters and state under torch's
/// names. import_torch and load_from_gradstep (docs/how_to/checkpoints.md) read its layout. Returns
/// messages for the user; the first names the class. Throws value_error, naming file and parameter,
/// if no class keeps the state, and io_error; `to` is then unchanged. It uses a few MB of memory
/// for a model of any size.
std::vector<std::string> export_torch(std::string const& from, std::string const& to, export_options const& options);

} // namespace gradstep::tools
