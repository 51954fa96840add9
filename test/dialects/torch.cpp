// Every function of gradstep::dialects::torch against torch's own numbers.
#include <gradstep/dialects/torch.hpp>

#include "golden.hpp"

namespace torch = gradstep::dialects::torch;

TEST_CASE("the dialect torch gives torch's numbers", "[dialects]") {
    golden::system system("torch", golden::scalars_in_element::none); // they are Python's, in double
    system.follow<gs::l2>("sgd", torch::sgd);
    system.follow("sgd_momentum", torch::sgd_momentum, "momentum", "dampening");
    system.follow("sgd_nesterov", torch::sgd_nesterov, "momentum");
    system.follow("rmsprop", torch::rmsprop, "alpha", "eps");
    system.follow("rmsprop_centered", torch::rmsprop_centered, "alpha", "eps");
    system.follow("rmsprop_momentum", torch::rmsprop_momentum, "alpha", "eps", "momentum");
    system.follow("rmsprop_centered_momentum", torch::rmsprop_centered_momentum, "alpha", "eps", "momentum");
    system.follow("adagrad", torch::adagrad, "initial_accumulator_value", "eps");
    system.follow("adadelta", torch::adadelta, "rho", "eps");
    system.follow("adam", torch::adam, "beta1", "beta2", "eps");
    system.follow("adam_amsgrad", torch::adam_amsgrad, "beta1", "beta2", "eps");
    system.follow<gs::decoupled>("adamw", torch::adamw, "beta1", "beta2", "eps");
    system.follow("adamax", torch::adamax, "beta1", "beta2", "eps");
    system.follow("radam", torch::radam, "beta1", "beta2", "eps");
    system.follow("sparse_adam", torch::sparse_adam, "beta1", "beta2", "eps");
    system.has_scalars(golden::scalars_in_element::powers); // the product of mu, a number of the default type
    system.follow("nadam", torch::nadam, "beta1", "beta2", "eps", "momentum_decay");
    CHECK(system.left() == std::set<std::string>{});
}
