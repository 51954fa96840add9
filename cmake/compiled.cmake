# gradstep::compiled: the definitions in .ipp files (base/instruction_set.hpp), compiled once. Each .ipp is a source, after its header;
# those of a room are compiled as one file, since what they include takes most of the time, and those that need JSON as another.
# Targets that link it are compiled with GRADSTEP_COMPILED.
file(GLOB_RECURSE definitions CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/include/*.ipp)
list(REMOVE_ITEM definitions gradstep/adapt/libtorch.ipp # cmake/libtorch.cmake
    gradstep/keyed/core.ipp) # code of the program's instruction set
set(with_json "^gradstep/((json|config|configuration|runtime|checkpoint)[./]|saved/(detail/(checkpoint_files|description)|safetensors)|distributed/detail/server_checkpoint)")
if(NOT TARGET gradstep::json)
    list(FILTER definitions EXCLUDE REGEX "${with_json}")
endif()
# GRADSTEP_DEFINE_RUNTIME marks what gradstep::runtime defines (bindings/c/CMakeLists.txt), beside the combinations of policies.
set(sources "")
set(gradstep_runtime_sources "")
foreach(definition IN LISTS definitions)
    string(REGEX REPLACE "[.]ipp$" "" stem ${definition})
    file(CONFIGURE OUTPUT compiled/${stem}.cpp CONTENT "#include <${stem}.hpp>\n#include <${definition}>\n" @ONLY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/${definition})
    file(STRINGS ${PROJECT_SOURCE_DIR}/include/${definition} marks REGEX "GRADSTEP_DEFINE_RUNTIME" LIMIT_COUNT 1)
    if(marks)
        list(APPEND gradstep_runtime_sources ${CMAKE_CURRENT_BINARY_DIR}/compiled/${stem}.cpp)
    else()
        list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/compiled/${stem}.cpp)
        set(group gradstep)
        if(stem MATCHES "^gradstep/([a-z]+)/")
            set(group ${CMAKE_MATCH_1})
        endif()
        if(definition MATCHES "${with_json}")
            string(APPEND group "_json")
        endif()
        set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/compiled/${stem}.cpp PROPERTIES UNITY_GROUP ${group})
    endif()
endforeach()

find_package(Threads REQUIRED)
add_library(gradstep_compiled_objects OBJECT ${sources}) # gradstep::runtime has them in its archive, too
set_target_properties(gradstep_compiled_objects PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
target_compile_definitions(gradstep_compiled_objects PRIVATE GRADSTEP_COMPILED=1)
# In sections, of which the C library links what it calls: no mode of data-parallel training, for example.
target_compile_options(gradstep_compiled_objects PRIVATE -fvisibility=hidden -ffunction-sections
                                                         $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64") # it runs on every processor that a program of any instruction set runs on
    target_compile_options(gradstep_compiled_objects PRIVATE -march=x86-64)
endif()
target_link_libraries(gradstep_compiled_objects PRIVATE gradstep_fast gradstep_gradstep gradstep_warnings
                      $<TARGET_NAME_IF_EXISTS:gradstep_json>)

add_library(gradstep_compiled STATIC $<TARGET_OBJECTS:gradstep_compiled_objects>)
add_library(gradstep::compiled ALIAS gradstep_compiled)
set_target_properties(gradstep_compiled PROPERTIES EXPORT_NAME compiled LINKER_LANGUAGE CXX)
target_compile_definitions(gradstep_compiled PUBLIC GRADSTEP_COMPILED=1)
target_link_libraries(gradstep_compiled PUBLIC gradstep_gradstep)
