# gradstep_component(<name>): the target gradstep::<name>, its dependencies and its export set.
#
# cmake/gradstep-<name>-dependencies.cmake finds what the component needs; the installed package reads the same file. It
# leaves the targets to link in gradstep_<target>_links (a component may have several targets, listed in
# gradstep_targets), or one sentence in gradstep_missing. A component without its dependency is left out with that
# sentence: the others do not need it.
function(gradstep_component name)
    set(gradstep_missing "")
    set(gradstep_targets ${name})
    include("${PROJECT_SOURCE_DIR}/cmake/gradstep-${name}-dependencies.cmake" OPTIONAL)
    if(gradstep_missing)
        message(STATUS "gradstep::${name} is left out: ${gradstep_missing}")
        return()
    endif()

    foreach(target IN LISTS gradstep_targets)
        add_library(gradstep_${target} INTERFACE)
        add_library(gradstep::${target} ALIAS gradstep_${target})
        set_target_properties(gradstep_${target} PROPERTIES EXPORT_NAME ${target})
        target_link_libraries(gradstep_${target} INTERFACE ${gradstep_${target}_links})
        if(NOT target STREQUAL "core")
            target_link_libraries(gradstep_${target} INTERFACE gradstep_core)
        endif()
        install(TARGETS gradstep_${target} EXPORT gradstep-${name})
    endforeach()
    set_property(GLOBAL APPEND PROPERTY gradstep_components ${name})
endfunction()
