# gradstep::eigen: the core and Eigen's matrices.
if(NOT TARGET Eigen3::Eigen)
    find_package(Eigen3 CONFIG QUIET)
endif()
if(NOT TARGET Eigen3::Eigen)
    set(gradstep_missing "Eigen was not found (Debian: libeigen3-dev)")
endif()
set(gradstep_eigen_links Eigen3::Eigen)
