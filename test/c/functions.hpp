#pragma once
#include <fstream>
#include <set>
#include <string>

/// Every function of symbols.txt that returns a status: what tests of all functions have to call.
inline std::set<std::string> functions_that_fail() {
    std::set<std::string> out;
    std::ifstream symbols(SYMBOLS_FILE);
    for (std::string name; symbols >> name;) out.insert(name);
    for (char const* const other :
         {"gradstep_abi_version", "gradstep_bytes_release", "gradstep_executor_release", "gradstep_features",
          "gradstep_geo_release", "gradstep_inbox_allocate", "gradstep_parameter_release", "gradstep_server_release",
          "gradstep_simd_level", "gradstep_table_release", "gradstep_updater_release", "gradstep_version",
          "gradstep_worker_release"})
        out.erase(other);
    return out;
}
