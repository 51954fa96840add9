# gradstep::dlib: the core and dlib, for gradstep's rules as its solvers.
if(NOT TARGET dlib::dlib)
    find_package(dlib CONFIG QUIET)
endif()
if(NOT TARGET dlib::dlib)
    set(gradstep_missing "dlib was not found (Debian: libdlib-dev)")
endif()
set(gradstep_dlib_links dlib::dlib)
