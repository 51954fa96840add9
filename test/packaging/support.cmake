# What both tests of packages use.

# optional_components(<variable> <source folder>): those that an option of CMake turns on and off.
function(optional_components variable source_dir)
    file(STRINGS ${source_dir}/CMakeLists.txt lines REGEX "^option\\(GRADSTEP_[A-Z]+ \"Offer gradstep::")
    list(TRANSFORM lines REPLACE "^option\\(GRADSTEP_([A-Z]+) .*" "\\1")
    list(TRANSFORM lines TOLOWER)
    set(${variable} ${lines} PARENT_SCOPE)
endfunction()

# json_members(<variable> <object>): the names of the members of a JSON object.
function(json_members variable object)
    string(JSON count LENGTH "${object}")
    set(names "")
    if(count GREATER 0)
        math(EXPR last "${count} - 1")
        foreach(i RANGE ${last})
            string(JSON name MEMBER "${object}" ${i})
            list(APPEND names ${name})
        endforeach()
    endif()
    set(${variable} ${names} PARENT_SCOPE)
endfunction()

# run(<command>...): fails with what the command said; leaves its output.
function(run)
    execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE log RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
        list(JOIN ARGN " " command)
        message("${output}${log}")
        message(FATAL_ERROR "${command}: ${status}")
    endif()
    set(output "${output}" PARENT_SCOPE)
endfunction()

# expect_same(<what> <list> <list>): both have the same elements, in any order.
function(expect_same what got wanted)
    set(too_many ${got})
    set(too_few ${wanted})
    if(wanted)
        list(REMOVE_ITEM too_many ${wanted})
    endif()
    if(got)
        list(REMOVE_ITEM too_few ${got})
    endif()
    if(too_many OR too_few)
        message(FATAL_ERROR "${what}: too many are '${too_many}', missing are '${too_few}'")
    endif()
endfunction()
