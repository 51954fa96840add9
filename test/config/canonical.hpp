#pragma once
#include <string>
#include <string_view>

/// What `to_json` writes of the configuration that `read_configuration` reads: compiled once for all files.
std::string canonical(std::string_view text);
