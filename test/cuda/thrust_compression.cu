// Compressed steps on the Thrust backend, on CUDA.
#include "../thrust/compression.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
