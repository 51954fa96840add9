# gradstep::paddle_optimizer of an installation: it links gradstep::c, and finds protobuf's runtime as any library does.
include("${CMAKE_CURRENT_LIST_DIR}/gradstep-c-targets.cmake")
