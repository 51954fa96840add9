// expected-error: gradstep: buffer: the type is not known as contiguous memory
#include <gradstep/gradstep.hpp>

#include <list>

namespace gs = gradstep;

double norm(std::list<float> const& g) { return gs::global_norm(gs::serial_backend{}, g); }
