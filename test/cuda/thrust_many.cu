// Many tensors on the Thrust backend, on CUDA.
#include "../thrust/many_tensors.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
