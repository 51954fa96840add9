#pragma once
#include <string>
#include <string_view>

#include <gradstep/configuration/detail/read.hpp>
#include <gradstep/configuration/detail/write.hpp>

/// What `to_json` writes of the configuration that `read_configuration` reads.
inline std::string canonical(std::string_view text) { return gradstep::to_json(gradstep::read_configuration(text)); }
