// expected-error: gradstep: simd_backend: the executor is a temporary, and must outlive the backend; expected a variable
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::simd_backend const backend{gs::callback_executor{2, [](std::size_t, gs::task) {}}, gs::subnormals::keep};
