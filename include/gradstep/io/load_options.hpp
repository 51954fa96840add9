#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradstep {

/// If the file lacks a parameter, `load` throws (`error`) or leaves the parameter as it is
/// (`keep`).
enum class missing_parameters { error, keep };
/// If the file has a parameter that the program lacks, `load` throws (`error`) or leaves it out
/// (`ignore`).
enum class unexpected_parameters { error, ignore };
/// If the file has another number of rows, `load` throws (`error`) or loads the rows that both
/// have, with their state (`resize`). Further rows of the parameter stay as they are.
enum class changed_rows { error, resize };

/// Which parameters of a file `load` loads, and under which names:
///
///     gs::load_report const report =
///         net.load("base.safetensors", {.missing = gs::missing_parameters::keep, .renamed = {{"module.w", "w"}}});
struct load_options {
    missing_parameters missing = missing_parameters::error;
    unexpected_parameters unexpected = unexpected_parameters::error;
    changed_rows rows = changed_rows::error;
    /// Maps a name in the file to the name in the program. `rename` gets all other names. A name
    /// that the file lacks is an error.
    std::map<std::string, std::string, std::less<>> renamed = {};
    /// Returns the name in the program for a name in the file. An empty function keeps the name.
    std::function<std::string(std::string_view)> rename = {};
};

/// What `load` did. Each parameter is in one of the lists, by its name in the program; `ignored`
/// has names in the file.
struct load_report {
    std::vector<std::string> loaded = {}, kept = {}, ignored = {}, resized = {};
};

} // namespace gradstep
