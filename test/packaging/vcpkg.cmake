# The vcpkg port without vcpkg, which no package registry has: runs portfile.cmake in script mode with the variables that
# vcpkg sets and with stand-ins for its functions, looks at the installed tree as vcpkg does after a build, and links a
# program to every target. Run by ctest: cmake -D<name>=... -P vcpkg.cmake, with the names that CMakeLists.txt gives.
cmake_minimum_required(VERSION 3.21)
include(${CMAKE_CURRENT_LIST_DIR}/support.cmake)

set(port_dir ${SOURCE_DIR}/packaging/vcpkg/ports/gradstep)

# --- vcpkg's functions, as far as the port calls them -----------------------------------------------------------------

function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "OUT_FEATURE_OPTIONS" "FEATURES")
    set(options "")
    set(checked "")
    while(arg_FEATURES)
        list(POP_FRONT arg_FEATURES feature option)
        list(APPEND checked ${feature} ${option})
        if(feature IN_LIST FEATURES)
            list(APPEND options -D${option}=ON)
        else()
            list(APPEND options -D${option}=OFF)
        endif()
    endwhile()
    set(${arg_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
    set(checked_features ${checked} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
    expect_same("what the port builds" "${arg_SOURCE_PATH}" "${SOURCE_DIR}")
    if(NOT VCPKG_BUILD_TYPE STREQUAL "release")
        message(FATAL_ERROR "the port is to be built once")
    endif()
    run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${CURRENT_BUILDTREES_DIR} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_COMPILER=${CXX}
        -DThrust_DIR=${THRUST_DIR} -DCMAKE_ERROR_ON_ABSOLUTE_INSTALL_DESTINATION=ON ${arg_OPTIONS})
endfunction()

function(vcpkg_cmake_install)
    if("c" IN_LIST FEATURES) # takes minutes, and is there
        file(GLOB libraries ${C_LIBRARIES}/libgradstep.so* ${C_LIBRARIES}/libgradstep_c.a ${C_LIBRARIES}/libgradstep_runtime.a)
        file(COPY ${libraries} DESTINATION ${CURRENT_BUILDTREES_DIR}/bindings/c)
        run(${CMAKE_COMMAND} --install ${CURRENT_BUILDTREES_DIR})
        return()
    endif()
    run(${CMAKE_COMMAND} --build ${CURRENT_BUILDTREES_DIR} --target install)
endfunction()

# Moves the package file to where vcpkg wants it, two folders below the prefix.
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
    set(folder ${CURRENT_PACKAGES_DIR}/share/${PORT})
    file(GLOB files ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*)
    file(COPY ${files} DESTINATION ${folder})
    get_filename_component(parent ${arg_CONFIG_PATH} DIRECTORY)
    file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${parent})
    file(GLOB files ${folder}/*.cmake)
    set(up [[get_filename_component\(_IMPORT_PREFIX "\${_IMPORT_PREFIX}" PATH\)]])
    foreach(file IN LISTS files)
        file(READ ${file} text)
        string(REGEX REPLACE "${up}\n(${up}\n${up}\n)" "\\1" text "${text}")
        file(WRITE ${file} "${text}")
    endforeach()
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
    file(READ ${arg_FILE_LIST} text)
    file(WRITE ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright "${text}")
endfunction()

# --- one run of the port ----------------------------------------------------------------------------------------------

# run_port(<folder> <feature>...): as `vcpkg install gradstep[<feature>,...]`; leaves checked_features.
function(run_port folder)
    set(PORT gradstep)
    set(FEATURES core ${ARGN})
    set(TARGET_TRIPLET x64-linux)
    set(CURRENT_PORT_DIR ${port_dir})
    set(CURRENT_BUILDTREES_DIR ${WORK_DIR}/buildtrees/${folder})
    set(CURRENT_PACKAGES_DIR ${WORK_DIR}/${folder})
    include(${port_dir}/portfile.cmake)
    set(checked_features ${checked_features} PARENT_SCOPE)
endfunction()

# The installed tree holds the headers, the package file for the components, their libraries, and what vcpkg asks every port for.
function(check_tree folder)
    file(GLOB_RECURSE files RELATIVE ${WORK_DIR}/${folder} ${WORK_DIR}/${folder}/*)
    file(GLOB_RECURSE wanted RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/include/*)
    foreach(name config.cmake config-version.cmake)
        list(APPEND wanted share/gradstep/gradstep-${name})
    endforeach()
    foreach(component IN LISTS ARGN)
        list(APPEND wanted share/gradstep/gradstep-${component}-targets.cmake)
        if(component MATCHES "^(c|c_static|runtime)$")
            list(APPEND wanted share/gradstep/gradstep-${component}-targets-release.cmake)
        endif()
        if(component STREQUAL "c")
            list(APPEND wanted lib/libgradstep.so lib/libgradstep.so.0 lib/libgradstep.so.${VERSION} lib/libgradstep_c.a
                               lib/libgradstep_runtime.a)
        elseif(NOT component STREQUAL "core")
            list(APPEND wanted share/gradstep/gradstep-${component}-dependencies.cmake)
        endif()
    endforeach()
    list(APPEND wanted share/gradstep/copyright share/gradstep/usage)
    expect_same("files that the port installs" "${files}" "${wanted}")

    file(GLOB_RECURSE all LIST_DIRECTORIES true ${WORK_DIR}/${folder}/*)
    foreach(path IN LISTS all)
        file(GLOB content ${path}/*)
        if(IS_DIRECTORY ${path} AND NOT content)
            message(FATAL_ERROR "${path} is an empty folder")
        elseif(path MATCHES "\\.cmake$")
            file(READ ${path} text)
            foreach(folder_of_build IN ITEMS ${WORK_DIR} ${SOURCE_DIR})
                string(FIND "${text}" "${folder_of_build}" at)
                if(NOT at EQUAL -1)
                    message(FATAL_ERROR "${path} names ${folder_of_build}, which is not there for a user")
                endif()
            endforeach()
        endif()
    endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})

# --- vcpkg.json: the version, and a feature for each option of CMake --------------------------------------------------

file(READ ${port_dir}/vcpkg.json manifest)
string(JSON version GET "${manifest}" version-semver)
expect_same("version-semver in vcpkg.json" "${version}" "${VERSION}")
string(JSON license GET "${manifest}" license)
expect_same("license in vcpkg.json" "${license}" "Apache-2.0")

string(JSON features GET "${manifest}" features)
json_members(features "${features}")
optional_components(options ${SOURCE_DIR})
list(APPEND options c)
expect_same("features in vcpkg.json" "${features}" "${options}")

# --- without features, and with all whose dependency this machine has -------------------------------------------------

run_port(plain)
check_tree(plain core gradstep)
set(pairs "")
foreach(feature IN LISTS features)
    string(TOUPPER GRADSTEP_${feature} option)
    string(REGEX REPLACE "_C$" "_BUILD_C" option ${option})
    list(APPEND pairs ${feature} ${option})
endforeach()
expect_same("features and options in portfile.cmake" "${checked_features}" "${pairs}")

set(found "")
string(REPLACE "," ";" components "${COMPONENTS}")
foreach(feature IN LISTS features)
    if(feature IN_LIST components)
        list(APPEND found ${feature})
    endif()
endforeach()
set(offered core gradstep ${found})
if("thrust" IN_LIST found)
    list(APPEND offered thrust_cpp)
    if("tbb" IN_LIST found)
        list(APPEND offered thrust_tbb)
    endif()
endif()
run_port(all ${found})
check_tree(all ${offered})
if(C_LIBRARIES)
    run_port(library json c)
    check_tree(library core gradstep json c c_static runtime)
    run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/test/consumer/c_project -B ${WORK_DIR}/c_consumer -G ${GENERATOR} -DHOW=static
        -DCMAKE_PREFIX_PATH=${WORK_DIR}/library -DVERSION=${VERSION} -DCMAKE_CXX_COMPILER=${CXX}
        -DPROGRAM=${SOURCE_DIR}/examples/c/logistic_regression.c -DCMAKE_CXX_COMPILER_LAUNCHER=${CXX_LAUNCHER})
    run(${CMAKE_COMMAND} --build ${WORK_DIR}/c_consumer)
    run(${WORK_DIR}/c_consumer/consumer)
endif()

# --- a program, and one for each target that the usage file names -----------------------------------------------------

file(STRINGS ${WORK_DIR}/all/share/gradstep/usage usage)
string(REGEX MATCHALL "gradstep::[a-z_]+" named "${usage}")
list(TRANSFORM named REPLACE "gradstep::" "")
expect_same("targets that the usage file names" "${named}" "core;gradstep;${features};thrust_cpp;thrust_tbb;c_static;runtime")

list(JOIN offered "," offered)
run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/test/consumer/project -B ${WORK_DIR}/consumer -G ${GENERATOR} -DHOW=find_package
    -DCMAKE_PREFIX_PATH=${WORK_DIR}/all -DVERSION=${VERSION} -DCOMPONENTS=${offered} -DThrust_DIR=${THRUST_DIR}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_COMPILER_LAUNCHER=${CXX_LAUNCHER} -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer)
run(${WORK_DIR}/consumer/consumer)
