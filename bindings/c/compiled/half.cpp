#include "groups.hpp"

namespace gradstep::runtime {
using of_plain = type_list<sgd, momentum, nesterov, adagrad, rmsprop, adam>;
using of_stochastic = type_list<sgd, momentum, adagrad, adam>;

compiled_group const& plain_bfloat16() { return compiled_list<bfloat16, of_plain, usual_regularizers>::group; }
compiled_group const& plain_float16() { return compiled_list<float16, of_plain, usual_regularizers>::group; }
compiled_group const& stochastic_bfloat16() {
    return compiled_list<stochastic<bfloat16>, of_stochastic, type_list<none, decoupled>>::group;
}
compiled_group const& stochastic_float16() {
    return compiled_list<stochastic<float16>, of_stochastic, type_list<none, decoupled>>::group;
}
} // namespace gradstep::runtime
