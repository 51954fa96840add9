// The tests of the Thrust backend on CUDA.
#include "../thrust/backend.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
