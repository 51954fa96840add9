#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_first() { return float_group<0>::group; }
} // namespace gradstep::runtime
