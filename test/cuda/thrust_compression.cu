// Compressed steps on the Thrust backend, on CUDA.
#include "../backends/thrust_compression.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
