# gradstep::mpi: the core and MPI, for distributed/mpi.hpp, which uses the functions of C alone.
if(NOT TARGET MPI::MPI_CXX)
    find_package(MPI QUIET COMPONENTS CXX)
endif()
if(NOT TARGET MPI::MPI_CXX)
    set(gradstep_missing "MPI was not found (Debian: openmpi-bin libopenmpi-dev)")
endif()
set(gradstep_mpi_links MPI::MPI_CXX)
