# gradstep::tbb: the core and TBB, for backends/tbb_executor.hpp.
if(NOT TARGET TBB::tbb)
    find_package(TBB CONFIG QUIET)
endif()
if(NOT TARGET TBB::tbb)
    set(gradstep_missing "TBB was not found (Debian: libtbb-dev)")
endif()
set(gradstep_tbb_links TBB::tbb)
