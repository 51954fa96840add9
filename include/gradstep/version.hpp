// The version of gradstep. CMake and the Conan recipe read it from here.
// packaging/vcpkg/ports/gradstep/vcpkg.json repeats it; a test compares them.
#pragma once

#define GRADSTEP_VERSION_MAJOR 0
#define GRADSTEP_VERSION_MINOR 1
#define GRADSTEP_VERSION_PATCH 0
