// expected-error: gradstep: simd_backend: the executor is a temporary, and must outlive the backend; expected a variable
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::simd_backend const backend{gs::thread_pool{2}};
