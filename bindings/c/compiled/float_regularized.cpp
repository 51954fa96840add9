#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_regularized() {
    using of = type_list<sgd, momentum, nesterov, adagrad, rmsprop, adam, ftrl>;
    return compiled_list<float, of, type_list<any_regularizer>>::group;
}
} // namespace gradstep::runtime
