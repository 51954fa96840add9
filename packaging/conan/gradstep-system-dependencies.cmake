# Links what Conan has no package for to the components that need it: it is found on the system, by the files with which
# gradstep's own package file finds it.
foreach(gradstep_component IN ITEMS dlib armadillo ensmallen blas openmp mpi thrust thrust_cpp thrust_tbb cuda)
    if(TARGET gradstep::${gradstep_component})
        set(gradstep_missing "")
        include("${CMAKE_CURRENT_LIST_DIR}/gradstep-${gradstep_component}-dependencies.cmake")
        if(gradstep_missing)
            set(gradstep_FOUND FALSE)
            set(gradstep_NOT_FOUND_MESSAGE "gradstep::${gradstep_component}: ${gradstep_missing}")
        else()
            set_property(TARGET gradstep::${gradstep_component} APPEND PROPERTY
                         INTERFACE_LINK_LIBRARIES ${gradstep_${gradstep_component}_links})
        endif()
    endif()
endforeach()
