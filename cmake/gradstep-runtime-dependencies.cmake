# gradstep::runtime: the policies that are compiled, behind the headers of gradstep::compiled.
include("${CMAKE_CURRENT_LIST_DIR}/gradstep-compiled-dependencies.cmake")
