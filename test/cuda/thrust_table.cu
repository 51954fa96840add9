// The tests of tables on the Thrust backend, on CUDA.
#include "../thrust/table.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
