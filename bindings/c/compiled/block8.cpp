#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_in_blocks() {
    return compiled_list<block8<float>, type_list<momentum, adagrad, adam, lion>, usual_regularizers>::group;
}
} // namespace gradstep::runtime
