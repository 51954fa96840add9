# For presets (CMAKE_PROJECT_gradstep_INCLUDE): header-only libraries from folders, without the packages of this machine.
# Those name /usr/include, whose C library is the wrong one for a cross compiler, or are of another version.
#
# GRADSTEP_XSIMD_FOLDER    the folder xsimd; makes the target xsimd
# GRADSTEP_CATCH2_FOLDER   the folder catch2 of Catch2 2.13; makes Catch2::Catch2WithMain
if(GRADSTEP_XSIMD_FOLDER)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/header_folders/xsimd)
    file(CREATE_LINK ${GRADSTEP_XSIMD_FOLDER} ${PROJECT_BINARY_DIR}/header_folders/xsimd/xsimd SYMBOLIC)
    add_library(xsimd INTERFACE IMPORTED GLOBAL)
    target_include_directories(xsimd INTERFACE ${PROJECT_BINARY_DIR}/header_folders/xsimd)
endif()
if(GRADSTEP_CATCH2_FOLDER)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/header_folders/catch2)
    file(CREATE_LINK ${GRADSTEP_CATCH2_FOLDER} ${PROJECT_BINARY_DIR}/header_folders/catch2/catch2 SYMBOLIC)
    file(WRITE ${PROJECT_BINARY_DIR}/header_folders/catch_main.cpp "#define CATCH_CONFIG_MAIN\n#include <catch2/catch.hpp>\n")
    add_library(catch_main STATIC ${PROJECT_BINARY_DIR}/header_folders/catch_main.cpp)
    target_include_directories(catch_main SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/header_folders/catch2)
    add_library(Catch2::Catch2WithMain ALIAS catch_main)
endif()
