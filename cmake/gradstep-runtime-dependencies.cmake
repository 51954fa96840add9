# gradstep::runtime: the policies that are compiled, behind the headers of gradstep::gradstep and gradstep::json.
include("${CMAKE_CURRENT_LIST_DIR}/gradstep-gradstep-dependencies.cmake")
if(NOT gradstep_missing)
    include("${CMAKE_CURRENT_LIST_DIR}/gradstep-json-dependencies.cmake")
endif()
