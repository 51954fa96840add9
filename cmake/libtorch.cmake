# gradstep::libtorch: the steps of gradstep/adapt/libtorch.hpp, compiled once, beside gradstep::runtime.
set(gradstep_missing "")
include(cmake/gradstep-libtorch-dependencies.cmake)
if(NOT TARGET gradstep_runtime)
    message(FATAL_ERROR "GRADSTEP_LIBTORCH needs gradstep::runtime (GRADSTEP_BUILD_C)")
elseif(gradstep_missing)
    message(FATAL_ERROR "GRADSTEP_LIBTORCH: ${gradstep_missing}")
endif()
file(CONFIGURE OUTPUT compiled/gradstep/adapt/libtorch.cpp CONTENT "#include <gradstep/adapt/libtorch.ipp>\n" @ONLY)
add_library(gradstep_libtorch STATIC ${CMAKE_CURRENT_BINARY_DIR}/compiled/gradstep/adapt/libtorch.cpp)
add_library(gradstep::libtorch ALIAS gradstep_libtorch)
set_target_properties(gradstep_libtorch PROPERTIES EXPORT_NAME libtorch POSITION_INDEPENDENT_CODE ON)
target_link_libraries(gradstep_libtorch PUBLIC gradstep_runtime gradstep_system::torch
                      PRIVATE $<BUILD_INTERFACE:gradstep_fast> $<BUILD_INTERFACE:gradstep_warnings>)
