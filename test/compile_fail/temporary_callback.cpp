// expected-error: gradstep: simd_backend refers to its executor, which must outlive it: give a variable, not a temporary
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

gs::simd_backend const backend{gs::callback_executor{2, [](std::size_t, gs::task) {}}, gs::subnormals::keep};
