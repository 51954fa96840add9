#pragma once
#include <optional>
#include <string>
#include <vector>

namespace gradstep::tools {

/// What a checkpoint does not say.
struct export_options {
    std::string optimizer = {};      // the class; empty: the first that keeps the state of all parameters
    std::optional<double> rate = {}; // the learning rate, instead of that of the schedules
};

/// Makes the file `to` of a checkpoint, `from`: parameters and state by the names of torch, in the layout that import_torch reads
/// and load_from_gradstep (docs/checkpoints.md) makes an optimizer of. Returns what is to be known, in sentences: first the class.
/// Throws value_error, which names file and parameter, for what no class keeps, and io_error; `to` is then as it was. Takes a
/// few MB, whatever the size of the model is.
std::vector<std::string> export_torch(std::string const& from, std::string const& to, export_options const& options);

} // namespace gradstep::tools
