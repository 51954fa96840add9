# The packages for Debian, made by cpack of what is built, installed into a folder of their own by dpkg, and used by programs in C and C++.
# Run by ctest: cmake -D<name>=... -P debian.cmake, with the names that the call in CMakeLists.txt gives.
cmake_minimum_required(VERSION 3.21)
include(${CMAKE_CURRENT_LIST_DIR}/support.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
run(${CPACK} -G DEB --config ${BUILD_DIR}/CPackConfig.cmake -B ${WORK_DIR}/packages)
file(GLOB packages ${WORK_DIR}/packages/*.deb)
list(LENGTH packages count)
if(NOT count EQUAL 2)
    message(FATAL_ERROR "cpack made ${packages}; expected libgradstep0 and libgradstep-dev")
endif()

# What libgradstep0 needs was read from the library, and libgradstep-dev needs this version of it.
foreach(package IN LISTS packages)
    run(dpkg-deb --field ${package} Package Version Depends)
    if(NOT output MATCHES "(Package: libgradstep0\nVersion: ${VERSION}\nDepends: libc6 .*libstdc\\+\\+6)|(Package: libgradstep-dev\nVersion: ${VERSION}\nDepends: libgradstep0 \\(= ${VERSION}\\), libxsimd-dev, xtl-dev, nlohmann-json3-dev)")
        message(FATAL_ERROR "${package}: ${output}")
    endif()
endforeach()

# As `apt install` does, into a folder: only there the packages that they depend on are missing.
set(root ${WORK_DIR}/root)
file(MAKE_DIRECTORY ${root}/var/lib/dpkg/info ${root}/var/lib/dpkg/updates ${root}/var/lib/dpkg/triggers)
file(WRITE ${root}/var/lib/dpkg/status "")
file(WRITE ${root}/var/lib/dpkg/available "")
run(dpkg --root=${root} --log=${WORK_DIR}/dpkg.log --force-not-root --force-depends --force-bad-path --no-triggers --unpack ${packages})

run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/test/consumer/c_project -B ${WORK_DIR}/consumer -G ${GENERATOR} -DHOW=find_package
    -DCMAKE_PREFIX_PATH=${root}/usr -DVERSION=${VERSION} -DPROGRAM=${SOURCE_DIR}/examples/c/logistic_regression.c)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)
run(${WORK_DIR}/consumer/consumer)
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/test/consumer/project -B ${WORK_DIR}/cpp_consumer -G ${GENERATOR} -DHOW=find_package
    -DCMAKE_PREFIX_PATH=${root}/usr -DVERSION=${VERSION} -DCOMPONENTS=core,gradstep,json -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${CXX_LAUNCHER} -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/cpp_consumer)
run(${WORK_DIR}/cpp_consumer/consumer)
