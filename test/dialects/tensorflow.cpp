// Every function of gradstep::dialects::tensorflow against TensorFlow's own numbers.
#include <gradstep/dialects/tensorflow.hpp>

#include "golden.hpp"

namespace tensorflow = gradstep::dialects::tensorflow;

TEST_CASE("the dialect tensorflow gives TensorFlow's numbers", "[dialects]") {
    // The scalars of an operation are tensors of the variable's type.
    golden::system system("tensorflow", golden::scalars_in_element::all);
    system.follow("gradient_descent", tensorflow::gradient_descent);
    system.follow("momentum", tensorflow::momentum);
    system.follow("momentum_nesterov", tensorflow::momentum_nesterov);
    system.follow("keras_momentum", tensorflow::keras_momentum);
    system.follow("keras_momentum_nesterov", tensorflow::keras_momentum_nesterov);
    system.follow("adagrad", tensorflow::adagrad);
    system.follow("adagrad_v2", tensorflow::adagrad_v2);
    system.follow("adadelta", tensorflow::adadelta);
    system.follow("rmsprop", tensorflow::rmsprop);
    system.follow("rmsprop_centered", tensorflow::rmsprop_centered);
    system.follow("rmsprop_momentum", tensorflow::rmsprop_momentum);
    system.follow("rmsprop_centered_momentum", tensorflow::rmsprop_centered_momentum);
    system.follow("adam", tensorflow::adam);
    system.follow("adam_nesterov", tensorflow::adam_nesterov);
    system.follow("adam_amsgrad", tensorflow::adam_amsgrad);
    system.follow("ada_max", tensorflow::ada_max);
    system.follow("ftrl", tensorflow::ftrl);
    system.follow("proximal_adagrad", tensorflow::proximal_adagrad);
    CHECK(system.left() == std::set<std::string>{});
}
