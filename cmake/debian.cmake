# Packages for Debian by CPack: libgradstep0, the shared library, and libgradstep-dev, everything else that is installed.
# `./dev package debian` calls cpack.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The gradstep authors")
set(CPACK_PACKAGE_FILE_NAME gradstep-${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL libgradstep0 libgradstep-dev)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBGRADSTEP0_DESCRIPTION
    "Optimizer steps for programs in C, Go, Rust and Python: the shared library\n AdamW, FTRL, Adagrad, LAMB and more, in one pass over memory.")
set(CPACK_DEBIAN_LIBGRADSTEP0_PACKAGE_NAME libgradstep0)
set(CPACK_DEBIAN_LIBGRADSTEP0_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBGRADSTEP0_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBGRADSTEP-DEV_DESCRIPTION
    "Optimizer steps for C++20: headers, archives and files for CMake and pkg-config\n AdamW, FTRL, Adagrad, LAMB and more, in one pass over memory.")
set(CPACK_DEBIAN_LIBGRADSTEP-DEV_PACKAGE_NAME libgradstep-dev)
set(CPACK_DEBIAN_LIBGRADSTEP-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBGRADSTEP-DEV_PACKAGE_DEPENDS "libgradstep0 (= ${PROJECT_VERSION}), libxsimd-dev, xtl-dev, nlohmann-json3-dev")
set(CPACK_DEBIAN_LIBGRADSTEP-DEV_PACKAGE_SUGGESTS "libeigen3-dev, libopenblas-dev, libopenmpi-dev, libtbb-dev, libthrust-dev, libxtensor-dev")
include(CPack)
