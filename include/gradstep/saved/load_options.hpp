#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradstep {
/// What `load` does if the file lacks a parameter: it throws (`error`), or leaves the parameter
/// unchanged (`keep`).
enum class missing_parameters { error, keep };
/// What `load` does if the file has a parameter that the program lacks: it throws (`error`), or
/// ignores it (`ignore`).
enum class unexpected_parameters { error, ignore };
/// What `load` does if the file has another number of rows: it throws (`error`), or loads the rows
/// that both have, with their state (`resize`). Further rows of the parameter do not change.
enum class changed_rows { error, resize };

/// Selects which parameters of a file `load` loads, and maps their names:
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

/// The result of `load`. Each parameter is in one of the lists, by its name in the program;
/// `ignored` contains names in the file.
struct load_report {
    std::vector<std::string> loaded = {}, kept = {}, ignored = {}, resized = {};
};
} // namespace gradstep
