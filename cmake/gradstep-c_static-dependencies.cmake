# gradstep::c_static: an archive, which leaves to its program what gradstep::runtime needs.
include("${CMAKE_CURRENT_LIST_DIR}/gradstep-runtime-dependencies.cmake")
