// Every function of gradstep::dialects::optax against optax's own numbers.
#include <gradstep/dialects/optax.hpp>

#include "golden.hpp"

namespace optax = gradstep::dialects::optax;

TEST_CASE("the dialect optax gives optax's numbers", "[dialects]") {
    // 1 - beta is Python's, in double; beta^t is an array's.
    golden::system system("optax", golden::scalars_in_element::powers);
    system.follow("sgd", optax::sgd);
    system.follow("sgd_momentum", optax::sgd_momentum, "momentum");
    system.follow("sgd_nesterov", optax::sgd_nesterov, "momentum");
    system.follow("adagrad", optax::adagrad, "initial_accumulator_value", "eps");
    system.follow("adadelta", optax::adadelta, "rho", "eps");
    system.follow("rmsprop", optax::rmsprop, "decay", "eps", "initial_scale", "eps_in_sqrt");
    system.follow("rmsprop_centered", optax::rmsprop_centered, "decay", "eps", "initial_scale", "eps_in_sqrt");
    system.follow("rmsprop_momentum", optax::rmsprop_momentum, "decay", "eps", "initial_scale", "eps_in_sqrt",
                  "momentum");
    system.follow("rmsprop_centered_momentum", optax::rmsprop_centered_momentum, "decay", "eps", "initial_scale",
                  "eps_in_sqrt", "momentum");
    system.follow("adam", optax::adam, "b1", "b2", "eps");
    system.follow<gs::decoupled>("adamw", optax::adamw, "b1", "b2", "eps");
    system.follow("nadam", optax::nadam, "b1", "b2", "eps");
    system.follow<gs::decoupled>("nadamw", optax::nadamw, "b1", "b2", "eps");
    system.follow("amsgrad", optax::amsgrad, "b1", "b2", "eps");
    system.follow("adamax", optax::adamax, "b1", "b2", "eps");
    system.follow<gs::decoupled>("adamaxw", optax::adamaxw, "b1", "b2", "eps");
    system.follow("radam", optax::radam, "b1", "b2", "eps");
    system.follow("adabelief", optax::adabelief, "b1", "b2", "eps", "eps_root");
    system.follow("yogi", optax::yogi, "b1", "b2", "eps");
    system.follow<gs::decoupled>("lion", optax::lion, "b1", "b2");
    system.follow("lamb", optax::lamb, "b1", "b2", "eps", "weight_decay");
    system.follow<gs::l2>("lars", optax::lars, "trust_coefficient", "eps", "momentum");
    CHECK(system.left() == std::set<std::string>{});
}
