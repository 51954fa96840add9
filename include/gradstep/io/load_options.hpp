#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gradstep {

/// What `load` does with a parameter that the file does not have: an `error`, or `keep` it as it is.
enum class missing_parameters { error, keep };
/// What `load` does with a parameter of the file that is not known here: an `error`, or `ignore` it.
enum class unexpected_parameters { error, ignore };
/// What `load` does where the file has another number of rows: an `error`, or `resize`: the rows that both have are loaded, with
/// their state, and the parameter keeps its further rows as they are.
enum class changed_rows { error, resize };

/// How much of a file `load` takes, and under which names:
///
///     gs::load_report const report =
///         net.load("base.safetensors", {.missing = gs::missing_parameters::keep, .renamed = {{"module.w", "w"}}});
struct load_options {
    missing_parameters missing = missing_parameters::error;
    unexpected_parameters unexpected = unexpected_parameters::error;
    changed_rows rows = changed_rows::error;
    /// The name here of a name in the file. Names that are not listed go through `rename`; a listed name that the file does not
    /// have is an error.
    std::map<std::string, std::string, std::less<>> renamed = {};
    /// Returns the name here of a name in the file. Empty: the same name.
    std::function<std::string(std::string_view)> rename = {};
};

/// What a load did: names here, and of `ignored` names in the file. A parameter is in one of the lists.
struct load_report {
    std::vector<std::string> loaded = {}, kept = {}, ignored = {}, resized = {};
};

} // namespace gradstep
