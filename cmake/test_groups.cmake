# Which tests a build has: GRADSTEP_TEST_GROUPS, a list of names. A name selects
# - a folder of test/, such as rows, or a file in it, such as core/float16;
# - a group, which test/CMakeLists.txt gives to folders and files where it declares them: kernels, library, threads, once, thorough;
# - other tests, under the name that they are declared with, such as bindings, bits or packaging.
set(GRADSTEP_TEST_GROUPS default CACHE STRING "Tests to build: a list of default, plain, installed, groups, folders and files of test/")
set(GRADSTEP_TEST_RULES "" CACHE STRING "Rules of test/support/registry.hpp that test/properties has (a list of names); empty: all")
mark_as_advanced(GRADSTEP_TEST_RULES)

set(gradstep_tests_selected ${GRADSTEP_TEST_GROUPS})
list(REMOVE_ITEM gradstep_tests_selected default plain installed)
if("default" IN_LIST GRADSTEP_TEST_GROUPS OR "plain" IN_LIST GRADSTEP_TEST_GROUPS)
    list(APPEND gradstep_tests_selected once properties regularizers c bindings docs layers)
endif()
if("default" IN_LIST GRADSTEP_TEST_GROUPS) # what a user needs to trust the library on this machine: ./dev test
    list(APPEND gradstep_tests_selected kernels library threads)
endif()
# What needs other compilers and what checks the sources: ./dev test plain. Programs of the public interface are in the preset gcc;
# kernels, library and threads are in those with sanitizers.
if("plain" IN_LIST GRADSTEP_TEST_GROUPS)
    list(APPEND gradstep_tests_selected bits compile_fail cuda headers static)
endif()
if("installed" IN_LIST GRADSTEP_TEST_GROUPS) # what links the compiled library, installs it, or makes packages of it
    list(APPEND gradstep_tests_selected consumer consumers packaging usage/run_time)
endif()

# gradstep_selected(<variable> <name>...): whether one of the names is selected
function(gradstep_selected variable)
    set_property(GLOBAL APPEND PROPERTY gradstep_test_names ${ARGN})
    set(${variable} OFF PARENT_SCOPE)
    foreach(name IN LISTS ARGN)
        if(name IN_LIST gradstep_tests_selected)
            set(${variable} ON PARENT_SCOPE)
        endif()
    endforeach()
endfunction()

# gradstep_check_selected(): a name that selects nothing is an error, for instance that of a file which has moved
function(gradstep_check_selected)
    get_property(names GLOBAL PROPERTY gradstep_test_names)
    foreach(name IN LISTS gradstep_tests_selected)
        if(NOT name IN_LIST names)
            message(FATAL_ERROR "GRADSTEP_TEST_GROUPS: no test is declared as \"${name}\"")
        endif()
    endforeach()
endfunction()
