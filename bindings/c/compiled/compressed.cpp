#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_compressed() {
    return compiled_list<float, type_list<dgc_momentum>, type_list<none, l2>>::group;
}
} // namespace gradstep::runtime
