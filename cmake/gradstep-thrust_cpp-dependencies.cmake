# gradstep::thrust_cpp: the core and Thrust on one thread of the CPU. A program has one Thrust system, so each is a target
# of its own: this one, gradstep::thrust (OpenMP) and gradstep::thrust_tbb.
find_package(Thrust CONFIG QUIET)
if(NOT Thrust_FOUND)
    set(gradstep_missing "Thrust was not found (Debian: libthrust-dev; in a CUDA toolkit: lib64/cmake/thrust)")
elseif(NOT TARGET gradstep_system::cpp)
    thrust_create_target(gradstep_system::cpp DEVICE CPP)
endif()
set(gradstep_thrust_cpp_links gradstep_system::cpp)
