#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_averaged() {
    using of = type_list<sgd, momentum, adagrad, adam>;
    return compiled_list<float, of, type_list<none, decoupled>, averages>::group;
}
} // namespace gradstep::runtime
