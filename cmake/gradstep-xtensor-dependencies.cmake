# gradstep::xtensor: the core and xtensor's containers.
if(NOT TARGET xtensor)
    find_package(xtensor CONFIG QUIET)
endif()
if(NOT TARGET xtensor)
    set(gradstep_missing "xtensor was not found (Debian: libxtensor-dev)")
endif()
set(gradstep_xtensor_links xtensor)
