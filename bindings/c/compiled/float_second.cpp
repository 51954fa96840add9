#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_second() { return float_group<1>::group; }
} // namespace gradstep::runtime
