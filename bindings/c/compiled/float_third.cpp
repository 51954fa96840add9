#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_third() { return float_group<2>::group; }
} // namespace gradstep::runtime
