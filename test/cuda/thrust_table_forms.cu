// Every form of catch-up on the Thrust backend, on CUDA.
#include "../thrust/table_forms.cpp" // NOLINT(bugprone-suspicious-include): one source for all of Thrust's systems
