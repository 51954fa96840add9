# gradstep::json: the core and nlohmann-json, for configurations and checkpoints.
if(NOT TARGET nlohmann_json::nlohmann_json)
    find_package(nlohmann_json CONFIG QUIET)
endif()
if(NOT TARGET nlohmann_json::nlohmann_json)
    set(gradstep_missing "nlohmann-json was not found (Debian: nlohmann-json3-dev)")
endif()
set(gradstep_json_links nlohmann_json::nlohmann_json)
