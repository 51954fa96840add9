// expected-error: gradstep: simd_backend: the argument is no executor; expected a type with concurrency.. and run.parts, work.
#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

int number = 2;
gs::simd_backend const backend{number};
