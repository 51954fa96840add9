#include <gradstep/version.hpp>

#include "instruction_sets.hpp"
#include "support.hpp"

#define GRADSTEP_TEXT_(x) #x
#define GRADSTEP_TEXT(x) GRADSTEP_TEXT_(x)

uint32_t gradstep_abi_version(void) { return GRADSTEP_ABI_MAJOR * 65536 + GRADSTEP_ABI_MINOR; }

const char* gradstep_version(void) {
    return GRADSTEP_TEXT(GRADSTEP_VERSION_MAJOR) "." GRADSTEP_TEXT(GRADSTEP_VERSION_MINOR) "." GRADSTEP_TEXT(
        GRADSTEP_VERSION_PATCH);
}

uint64_t gradstep_features(void) {
    return GRADSTEP_FEATURE_ROWS | GRADSTEP_FEATURE_FILES | GRADSTEP_FEATURE_COMPRESSION | GRADSTEP_FEATURE_CATCH_UP |
           GRADSTEP_FEATURE_TABLES | GRADSTEP_FEATURE_SERVERS;
}

const char* gradstep_simd_level(void) { return gradstep::c::chosen_instruction_set().name; }

gradstep_status gradstep_config_canonical(const char* config, size_t config_bytes, char* buffer, uint64_t bytes,
                                          uint64_t* written, gradstep_error* error) {
    using namespace gradstep::c;
    return guarded(error,
                   [&] { write_text(gradstep::to_json(read_config(config, config_bytes)), buffer, bytes, written); });
}

gradstep_status gradstep_config_check_change(const char* before, size_t before_bytes, const char* now, size_t now_bytes,
                                             gradstep_error* error) {
    using namespace gradstep::c;
    return guarded(error, [&] {
        auto const old = read_config(before, before_bytes), next = read_config(now, now_bytes);
        of_config([&] { gradstep::detail::require_same_constants(next.policies, old.policies); });
    });
}
