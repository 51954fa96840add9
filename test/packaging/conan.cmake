# The Conan recipe as ConanCenter's machines run it, without network: its dependencies are stubs that stand for Debian's
# packages. Run by ctest: cmake -D<name>=... -P conan.cmake, with the names that the call in CMakeLists.txt gives.
cmake_minimum_required(VERSION 3.21)
include(${CMAKE_CURRENT_LIST_DIR}/support.cmake)

if(NOT CONAN)
    message(FATAL_ERROR "Conan was not found, so nothing was tested: ./dev test plain installs it from PyPI; otherwise give "
                        "-DGRADSTEP_CONAN=.../conan, or leave the tests of packages out by ctest -LE packaging")
endif()
set(recipe ${SOURCE_DIR}/packaging/conan)

# Nothing is taken from the user's own Conan, and nothing is written outside the build folder.
file(REMOVE_RECURSE ${WORK_DIR})
set(ENV{CONAN_HOME} ${WORK_DIR}/home)
set(ENV{CXX} ${CXX})
set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} "${CXX_LAUNCHER}")
set(ENV{Thrust_DIR} "${THRUST_DIR}")

run(${CONAN} profile detect)
run(${CONAN} remote disable *)
foreach(stub xsimd/8.1.0 xsimd/14.2.0 xtensor/0.24.3 eigen/3.4.0 nlohmann_json/3.11.2 onetbb/2021.8.0)
    string(REPLACE "/" ";" stub ${stub})
    list(GET stub 0 name)
    list(GET stub 1 version)
    run(${CONAN} export ${SOURCE_DIR}/test/packaging/stubs/${name} --version=${version})
endforeach()

# The oldest and the first too new version of xsimd are those of the package file.
file(STRINGS ${SOURCE_DIR}/cmake/gradstep-gradstep-dependencies.cmake line REGEX "xsimd_VERSION VERSION_LESS")
string(REGEX MATCH "VERSION_LESS ([0-9.]+) OR xsimd_VERSION VERSION_GREATER_EQUAL ([0-9.]+)" bounds "${line}")
foreach(place "packaging/conan/conanfile.py|xsimd/[>=${CMAKE_MATCH_1} <${CMAKE_MATCH_2}]"
              "cmake/gradstep.pc.in|xsimd >= ${CMAKE_MATCH_1}, xsimd < ${CMAKE_MATCH_2}")
    string(REPLACE "|" ";" place "${place}")
    list(POP_FRONT place file)
    file(READ ${SOURCE_DIR}/${file} text)
    string(FIND "${text}" "${place}" at)
    if(at EQUAL -1)
        message(FATAL_ERROR "${file} does not say '${place}', as cmake/gradstep-gradstep-dependencies.cmake does")
    endif()
endforeach()

# What costs the compiler least.
set(flags "'-g0', '-DGRADSTEP_NO_FORCE_INLINE=1'")
if(CXX MATCHES "g\\+\\+$" AND NOT CXX MATCHES "clang")
    string(APPEND flags ", '--param=ggc-min-heapsize=4000000'")
endif()
set(settings -s compiler.cppstd=20 -s build_type=Debug -c "tools.build:cxxflags=[${flags}]" -c tools.cmake.cmaketoolchain:generator=${GENERATOR}
             -c tools.cmake.cmake_layout:test_folder=${WORK_DIR}/test -c tools.cmake.cmaketoolchain:user_presets=)

# An option for each of CMake's; turned on below where this machine has the dependency.
optional_components(names ${SOURCE_DIR})
list(TRANSFORM names PREPEND with_)
run(${CONAN} inspect ${recipe} --format=json)
string(JSON options GET "${output}" options)
json_members(options "${options}")
list(APPEND names with_compiled)
expect_same("options of the recipe" "${options}" "${names}")
set(everything "")
string(REPLACE "," ";" components "${COMPONENTS}")
foreach(name IN LISTS components)
    if(with_${name} IN_LIST options)
        list(APPEND everything -o "&:with_${name}=True")
    endif()
endforeach()

# An older standard is refused before anything is built.
execute_process(COMMAND ${CONAN} create ${recipe} ${settings} -s compiler.cppstd=17 --build=missing
                OUTPUT_QUIET ERROR_VARIABLE log RESULT_VARIABLE status)
if(status EQUAL 0 OR NOT log MATCHES "lower than the required C\\+\\+ standard \\(20\\)")
    message("${log}")
    message(FATAL_ERROR "C++17 was not refused")
endif()

# By default, and with everything: xtensor wants an older xsimd than the newest, which the recipe's range follows. The program with
# everything is compiled by the generator of CMake files that is to be Conan's next.
run(${CONAN} create ${recipe} ${settings} --build=missing)
run(${CONAN} create ${recipe} ${settings} --build=missing ${everything} --test-folder=)
run(${CONAN} test ${recipe}/test_package gradstep/${VERSION} ${settings} ${everything}
          -c tools.cmake.cmakedeps:new=will_break_next)

# One package for all settings and options without with_compiled, which holds no more than it says.
run(${CONAN} list gradstep/*:* --format=json)
string(JSON revisions GET "${output}" "Local Cache" gradstep/${VERSION} revisions)
string(JSON revision MEMBER "${revisions}" 0)
string(JSON packages GET "${revisions}" ${revision} packages)
string(JSON count LENGTH "${packages}")
if(NOT count EQUAL 1)
    message(FATAL_ERROR "different options gave different packages: ${packages}")
endif()
string(JSON package MEMBER "${packages}" 0)
run(${CONAN} cache path gradstep/${VERSION}:${package})
string(STRIP "${output}" folder)
file(GLOB_RECURSE files RELATIVE ${folder} ${folder}/*)
file(GLOB_RECURSE wanted RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/include/*)
list(APPEND wanted conaninfo.txt conanmanifest.txt licenses/LICENSE lib/cmake/gradstep-system-dependencies.cmake)
foreach(name dlib armadillo ensmallen blas openmp mpi thrust thrust_cpp thrust_tbb cuda)
    list(APPEND wanted lib/cmake/gradstep-${name}-dependencies.cmake)
endforeach()
expect_same("files of the package" "${files}" "${wanted}")

# With the compiled library, another one, whose program links it. It takes minutes to compile.
if(NOT THOROUGH)
    return()
endif()
run(${CONAN} create ${recipe} ${settings} --build=missing -o &:with_compiled=True)
run(${CONAN} list gradstep/*:* --format=json)
string(JSON packages GET "${output}" "Local Cache" gradstep/${VERSION} revisions ${revision} packages)
string(JSON count LENGTH "${packages}")
if(NOT count EQUAL 2)
    message(FATAL_ERROR "with_compiled did not give a second package: ${packages}")
endif()
