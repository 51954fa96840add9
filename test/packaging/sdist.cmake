# The source distribution for PyPI holds all that the library is built from: unpacked, it has the same sources, CMake accepts them, and
# the part that has no update loops is compiled. The loops, which take minutes, are those of the build that this test belongs to.
# Run by ctest: cmake -D<name>=... -P sdist.cmake, with the names that the call in CMakeLists.txt gives.
cmake_minimum_required(VERSION 3.21)
include(${CMAKE_CURRENT_LIST_DIR}/support.cmake)

file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})
run(${CMAKE_COMMAND} -E chdir ${SOURCE_DIR}/bindings/python
    ${PYTHON} -B -c "__import__('build_wheel').build_sdist('${WORK_DIR}')")
file(ARCHIVE_EXTRACT INPUT ${WORK_DIR}/gradstep-${VERSION}.tar.gz DESTINATION ${WORK_DIR})
set(unpacked ${WORK_DIR}/gradstep-${VERSION}/library)

foreach(folder include bindings/c cmake)
    file(GLOB_RECURSE got RELATIVE ${unpacked} ${unpacked}/${folder}/*)
    file(GLOB_RECURSE wanted RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/${folder}/*)
    expect_same("${folder} of the source distribution" "${got}" "${wanted}")
endforeach()

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${unpacked} -B ${WORK_DIR}/build -DCMAKE_BUILD_TYPE=Debug -DGRADSTEP_BUILD_C=ON
    -DGRADSTEP_BUILD_TESTS=OFF -DGRADSTEP_BUILD_EXAMPLES=OFF -DGRADSTEP_BUILD_BENCHMARKS=OFF -DGRADSTEP_BUILD_TOOLS=OFF
    -DGRADSTEP_INSTALL=OFF -DGRADSTEP_CUDA=OFF -DCMAKE_CXX_COMPILER=${CXX})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build --target gradstep_c_objects)
