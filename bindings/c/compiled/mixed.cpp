#include "groups.hpp"

namespace gradstep::runtime {
using of_mixed = type_list<sgd, momentum, nesterov, adagrad, rmsprop, adam, lion, lamb>;

compiled_group const& mixed_bfloat16() { return compiled_list<mixed<bfloat16>, of_mixed, usual_regularizers>::group; }
compiled_group const& mixed_float16() { return compiled_list<mixed<float16>, of_mixed, usual_regularizers>::group; }
} // namespace gradstep::runtime
