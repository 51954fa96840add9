#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& double_plain() {
    using of = type_list<sgd, momentum, nesterov, adagrad, decayed_adagrad, adadelta, rmsprop, adam, ftrl>;
    return compiled_list<double, of, usual_regularizers>::group;
}
compiled_group const& double_second() {
    using of = type_list<amsgrad, centered_rmsprop, momentum_rmsprop, centered_momentum_rmsprop>;
    return compiled_list<double, of, usual_regularizers>::group;
}
compiled_group const& double_third() {
    return compiled_list<double, type_list<adamax, nadam, radam>, usual_regularizers>::group;
}
compiled_group const& double_factored() { // torch's Adafactor
    return compiled_list<double, type_list<adafactor>, type_list<none, decoupled>>::group;
}
compiled_group const& double_regularized() {
    return compiled_list<double, type_list<sgd, momentum, adam>, type_list<any_regularizer>>::group;
}
} // namespace gradstep::runtime
