# gradstep_component(<name>): the target gradstep::<name>, its dependencies and its export set.
#
# cmake/gradstep-<name>-dependencies.cmake finds what the component needs; the installed package reads the same file. It
# leaves the targets to link in gradstep_<name>_links, or one sentence in gradstep_missing. A component without its
# dependency is left out with that sentence: the others do not need it. Under GRADSTEP_REQUIRE_ALL it is an error.
function(gradstep_component name)
    set(gradstep_missing "")
    include("${PROJECT_SOURCE_DIR}/cmake/gradstep-${name}-dependencies.cmake" OPTIONAL)
    if(gradstep_missing)
        if(GRADSTEP_REQUIRE_ALL)
            message(FATAL_ERROR "gradstep::${name} cannot be offered: ${gradstep_missing}")
        endif()
        message(STATUS "gradstep::${name} is left out: ${gradstep_missing}")
        return()
    endif()

    add_library(gradstep_${name} INTERFACE)
    add_library(gradstep::${name} ALIAS gradstep_${name})
    set_target_properties(gradstep_${name} PROPERTIES EXPORT_NAME ${name})
    target_link_libraries(gradstep_${name} INTERFACE ${gradstep_${name}_links})
    if(NOT name STREQUAL "core")
        target_link_libraries(gradstep_${name} INTERFACE gradstep_core)
    endif()
    install(TARGETS gradstep_${name} EXPORT gradstep-${name})
    set_property(GLOBAL APPEND PROPERTY gradstep_components ${name})
endfunction()
