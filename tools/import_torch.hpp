#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradstep::tools {

/// What the file of torch does not say.
struct import_options {
    std::string element = {};              // of all parameters; empty: each parameter keeps its dtype
    std::optional<std::int64_t> step = {}; // the steps taken, where torch does not count them
    std::int64_t samples = 0, epoch = 0;   // of the clock
};

/// Makes the checkpoint `to` of `from`, the file that save_for_gradstep
/// (docs/how_to/checkpoints.md) has written of a model and its optimizer. What it says of the
/// policies of a parameter is JSON that read_configuration reads: those that go on as torch would
/// have gone on, at the rate that the group had when it was saved. Returns what else is to be
/// known, in sentences. Throws value_error or size_error, which name file and tensor, for
/// everything that is not so, and io_error; `to` is then as it was. Takes a few MB, whatever the
/// size of the model is.
std::vector<std::string> import_torch(std::string const& from, std::string const& to, import_options const& options);

} // namespace gradstep::tools
