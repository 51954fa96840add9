# Headers, one export set a component, the package file that loops over them, gradstep.pc, and where the library for callers of C
# is built that library, as the components c and c_static, what it is made of, as runtime, gradstep-c.pc and gradstep-runtime.pc.
include(CMakePackageConfigHelpers)

# By default `cmake --install` installs both components. cmake/debian.cmake makes a package of each.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libgradstep-dev)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradstep)
get_property(gradstep_components GLOBAL PROPERTY gradstep_components)
set(gradstep_architecture ARCH_INDEPENDENT)
if(TARGET gradstep_compiled AND GRADSTEP_BUILD_COMPILED)
    install(TARGETS gradstep_compiled EXPORT gradstep-compiled)
    list(APPEND gradstep_components compiled)
    set(gradstep_architecture "")
endif()
if(TARGET gradstep_c)
    foreach(component c runtime c_static)
        install(TARGETS gradstep_${component} EXPORT gradstep-${component}
                LIBRARY COMPONENT libgradstep0 NAMELINK_COMPONENT libgradstep-dev)
        list(APPEND gradstep_components ${component})
    endforeach()
    set(gradstep_architecture "")
endif()
if(TARGET gradstep_paddle_optimizer)
    set_target_properties(gradstep_paddle_optimizer PROPERTIES INSTALL_RPATH "$ORIGIN") # libgradstep lies beside it
    install(TARGETS gradstep_paddle_optimizer EXPORT gradstep-paddle_optimizer)
    list(APPEND gradstep_components paddle_optimizer)
endif()

if(TARGET gradstep_libtorch)
    install(TARGETS gradstep_libtorch EXPORT gradstep-libtorch)
    list(APPEND gradstep_components libtorch)
endif()

install(DIRECTORY include/gradstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(component IN LISTS gradstep_components)
    install(EXPORT gradstep-${component} NAMESPACE gradstep:: DESTINATION ${package_dir}
            FILE gradstep-${component}-targets.cmake)
    install(FILES cmake/gradstep-${component}-dependencies.cmake DESTINATION ${package_dir} OPTIONAL)
endforeach()

configure_package_config_file(cmake/gradstep-config.cmake.in gradstep-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(gradstep-config-version.cmake COMPATIBILITY SameMinorVersion
                                 ${gradstep_architecture})
install(FILES ${PROJECT_BINARY_DIR}/gradstep-config.cmake ${PROJECT_BINARY_DIR}/gradstep-config-version.cmake
        DESTINATION ${package_dir})

# The prefix relative to the .pc files, so that it stays right when the installed tree is moved.
file(RELATIVE_PATH gradstep_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
set(gradstep_pc_includedir "\${prefix}")
cmake_path(APPEND gradstep_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")    # an absolute one replaces the prefix
configure_file(cmake/gradstep.pc.in gradstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/gradstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(TARGET gradstep_c)
    set(gradstep_pc_libdir "\${prefix}")
    cmake_path(APPEND gradstep_pc_libdir "${CMAKE_INSTALL_LIBDIR}")
    foreach(file gradstep-c.pc gradstep-runtime.pc)
        configure_file(cmake/${file}.in ${file} @ONLY)
        install(FILES ${PROJECT_BINARY_DIR}/${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endforeach()
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/gradstep)
if(TARGET gradstep_c AND PROJECT_IS_TOP_LEVEL)
    include(cmake/debian.cmake)
endif()
