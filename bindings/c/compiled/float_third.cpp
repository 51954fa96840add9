#include "groups.hpp"

namespace gradstep::runtime {
compiled_group const& float_third() {
    using of = type_list<centered_rmsprop, momentum_rmsprop, centered_momentum_rmsprop, two_buffer_adagrad, lars, lamb,
                         rowwise_adagrad, rowwise_adam>;
    return compiled_list<float, of, usual_regularizers>::group;
}
} // namespace gradstep::runtime
