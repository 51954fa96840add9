// The tests of the Thrust backend on CUDA.
#include "../backends/thrust.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
