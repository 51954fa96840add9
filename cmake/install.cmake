# Headers, one export set a component, the package file that loops over them, and gradstep.pc.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradstep)
get_property(gradstep_components GLOBAL PROPERTY gradstep_components)

install(DIRECTORY include/gradstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(component IN LISTS gradstep_components)
    install(EXPORT gradstep-${component} NAMESPACE gradstep:: DESTINATION ${package_dir}
            FILE gradstep-${component}-targets.cmake)
    install(FILES cmake/gradstep-${component}-dependencies.cmake DESTINATION ${package_dir} OPTIONAL)
endforeach()

configure_package_config_file(cmake/gradstep-config.cmake.in gradstep-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(gradstep-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/gradstep-config.cmake ${PROJECT_BINARY_DIR}/gradstep-config-version.cmake
        DESTINATION ${package_dir})

# The prefix relative to gradstep.pc, so that it stays right when the installed tree is moved.
file(RELATIVE_PATH gradstep_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
set(gradstep_pc_includedir "\${prefix}")
cmake_path(APPEND gradstep_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")    # an absolute one replaces the prefix
configure_file(cmake/gradstep.pc.in gradstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/gradstep)
