#pragma once

/// Checkpoint files, for `save` and `load` of parameters, models and tables. A header-only program
/// must include this header if it calls them, and needs nlohmann-json. A program that links
/// gradstep::compiled need not include it. The files are safetensors;
/// docs/reference/file_formats.md describes their contents.

#include <gradstep/saved/detail/checkpoint_files.hpp>

#if GRADSTEP_HEADER_ONLY
#include <gradstep/checkpoint.ipp>
#endif
