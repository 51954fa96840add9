# gradstep::keyed: the core and abseil's hash sets, for keyed tables.
if(NOT TARGET absl::flat_hash_set OR NOT TARGET absl::hash)
    find_package(absl CONFIG QUIET)
endif()
if(NOT TARGET absl::flat_hash_set OR NOT TARGET absl::hash)
    set(gradstep_missing "abseil was not found (Debian: libabsl-dev)")
endif()
set(gradstep_keyed_links absl::flat_hash_set absl::hash)
