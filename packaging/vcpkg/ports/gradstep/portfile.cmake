# An overlay port of the working tree that it lies in: there is no release to download yet.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
if(NOT EXISTS "${SOURCE_PATH}/include/gradstep/version.hpp")
    message(FATAL_ERROR "The port of gradstep builds the sources around it: leave it in packaging/vcpkg/ports of gradstep "
                        "and name that folder by --overlay-ports or \"overlay-ports\".")
endif()

# Headers, and as the feature c a library whose border has numbers and pointers alone: the same for debug and release.
set(VCPKG_BUILD_TYPE release)
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        armadillo GRADSTEP_ARMADILLO
        blas    GRADSTEP_BLAS
        c       GRADSTEP_BUILD_C
        cuda    GRADSTEP_CUDA
        dlib    GRADSTEP_DLIB
        eigen   GRADSTEP_EIGEN
        ensmallen GRADSTEP_ENSMALLEN
        json    GRADSTEP_JSON
        mpi     GRADSTEP_MPI
        openmp  GRADSTEP_OPENMP
        tbb     GRADSTEP_TBB
        thrust  GRADSTEP_THRUST
        xtensor GRADSTEP_XTENSOR
)
vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DGRADSTEP_BUILD_TESTS=OFF
        -DGRADSTEP_BUILD_EXAMPLES=OFF
        -DGRADSTEP_BUILD_BENCHMARKS=OFF
        -DGRADSTEP_BUILD_TOOLS=OFF
        -DGRADSTEP_INSTALL=ON
        -DGRADSTEP_REQUIRE_ALL=ON
        ${FEATURE_OPTIONS}
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/gradstep)

set(leftovers "${CURRENT_PACKAGES_DIR}/lib")
if("c" IN_LIST FEATURES)
    set(leftovers "${CURRENT_PACKAGES_DIR}/lib/pkgconfig")
endif()
file(REMOVE_RECURSE "${leftovers}" "${CURRENT_PACKAGES_DIR}/share/licenses")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
