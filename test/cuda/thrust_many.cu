// Many tensors on the Thrust backend, on CUDA.
#include "../backends/thrust_many.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
