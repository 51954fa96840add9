# gradstep::compiled: what contains no kernel, behind the headers of gradstep::gradstep.
include("${CMAKE_CURRENT_LIST_DIR}/gradstep-gradstep-dependencies.cmake")
