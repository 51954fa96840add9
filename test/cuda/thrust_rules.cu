// Every rule on the Thrust backend, on CUDA.
#include "../thrust/rules.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
