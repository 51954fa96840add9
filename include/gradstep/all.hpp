#pragma once
/// Everything that needs no third-party header: core.hpp, presets of other frameworks, compressed
/// gradients, and tables for several threads.
#include <gradstep/compression.hpp>
#include <gradstep/core.hpp>
#include <gradstep/dialects.hpp>
#include <gradstep/striped.hpp>
