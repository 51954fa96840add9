// Every function of gradstep::dialects::tensorflow against TensorFlow's own numbers.
#include <gradstep/dialects/tensorflow.hpp>

#include "golden.hpp"

namespace tensorflow = gradstep::dialects::tensorflow;

TEST_CASE("the dialect tensorflow gives TensorFlow's numbers", "[dialects]") {
    // The scalars of an operation are tensors of the variable's type.
    golden::system system("tensorflow", golden::scalars_in_element::all);
    system.follow("gradient_descent", tensorflow::gradient_descent);
    system.follow("momentum", tensorflow::momentum, "momentum");
    system.follow("momentum_nesterov", tensorflow::momentum_nesterov, "momentum");
    system.follow("keras_momentum", tensorflow::keras_momentum, "momentum");
    system.follow("keras_momentum_nesterov", tensorflow::keras_momentum_nesterov, "momentum");
    system.follow("adagrad", tensorflow::adagrad, "initial_accumulator_value");
    system.follow("adagrad_v2", tensorflow::adagrad_v2, "initial_accumulator_value", "epsilon");
    system.follow("adadelta", tensorflow::adadelta, "rho", "epsilon");
    system.follow("rmsprop", tensorflow::rmsprop, "decay", "epsilon");
    system.follow("rmsprop_centered", tensorflow::rmsprop_centered, "decay", "epsilon");
    system.follow("rmsprop_momentum", tensorflow::rmsprop_momentum, "decay", "momentum", "epsilon");
    system.follow("rmsprop_centered_momentum", tensorflow::rmsprop_centered_momentum, "decay", "momentum", "epsilon");
    system.follow("adam", tensorflow::adam, "beta1", "beta2", "epsilon");
    system.follow("adam_nesterov", tensorflow::adam_nesterov, "beta1", "beta2", "epsilon");
    system.follow("adam_amsgrad", tensorflow::adam_amsgrad, "beta1", "beta2", "epsilon");
    system.follow("ada_max", tensorflow::ada_max, "beta1", "beta2", "epsilon");
    system.follow("ftrl", tensorflow::ftrl, "learning_rate_power", "initial_accumulator_value",
                  "l1_regularization_strength", "l2_regularization_strength", "l2_shrinkage_regularization_strength",
                  "beta");
    system.follow("proximal_adagrad", tensorflow::proximal_adagrad, "initial_accumulator_value",
                  "l1_regularization_strength", "l2_regularization_strength");
    CHECK(system.left() == std::set<std::string>{});
}
