# gradstep::openmp: the core and OpenMP, for backends/openmp_executor.hpp.
find_package(OpenMP QUIET COMPONENTS CXX)
if(NOT TARGET OpenMP::OpenMP_CXX)
    set(gradstep_missing "OpenMP was not found (Debian with clang-16: libomp-16-dev)")
endif()
set(gradstep_openmp_links OpenMP::OpenMP_CXX)
