#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_first() {
    using of = type_list<sgd, momentum, nesterov, adagrad, decayed_adagrad, adadelta, rmsprop, adam, amsgrad>;
    return compiled_list<float, of, usual_regularizers>::group;
}
} // namespace gradstep::runtime
