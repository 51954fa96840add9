// The version of gradstep: the one place where it stands; CMake reads it from here.
#pragma once

#define GRADSTEP_VERSION_MAJOR 0
#define GRADSTEP_VERSION_MINOR 1
#define GRADSTEP_VERSION_PATCH 0
