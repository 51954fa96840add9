// Every function of gradstep::dialects::keras against Keras' own numbers.
#include <gradstep/dialects/keras.hpp>

#include "golden.hpp"

namespace keras = gradstep::dialects::keras;

// use_ema of Adam, which begins with the weights of the first step.
namespace {

struct adam_ema_arguments {
    double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7, ema_momentum = 0.99;
};
auto adam_ema(adam_ema_arguments with) {
    return gs::averaged{keras::adam({with.beta_1, with.beta_2, with.epsilon}),
                        gs::ema{.decay = with.ema_momentum, .start = 1}};
}

} // namespace

TEST_CASE("the dialect keras gives Keras' numbers", "[dialects]") {
    // beta, and with it 1 - beta^t, is of the variable's type.
    golden::system system("keras", golden::scalars_in_element::all);
    system.follow("sgd", keras::sgd);
    system.follow("sgd_momentum", keras::sgd_momentum, "momentum");
    system.follow("sgd_nesterov", keras::sgd_nesterov, "momentum");
    system.follow("rmsprop", keras::rmsprop, "rho", "epsilon");
    system.follow("rmsprop_centered", keras::rmsprop_centered, "rho", "epsilon");
    system.follow("rmsprop_momentum", keras::rmsprop_momentum, "rho", "momentum", "epsilon");
    system.follow("rmsprop_centered_momentum", keras::rmsprop_centered_momentum, "rho", "momentum", "epsilon");
    system.follow("adam", keras::adam, "beta_1", "beta_2", "epsilon");
    system.follow("adam_amsgrad", keras::adam_amsgrad, "beta_1", "beta_2", "epsilon");
    system.follow<gs::decoupled>("adamw", keras::adamw, "beta_1", "beta_2", "epsilon");
    system.follow<gs::decoupled>("adamw_amsgrad", keras::adamw_amsgrad, "beta_1", "beta_2", "epsilon");
    system.follow("adadelta", keras::adadelta, "rho", "epsilon");
    system.follow("adagrad", keras::adagrad, "initial_accumulator_value", "epsilon");
    system.follow("adamax", keras::adamax, "beta_1", "beta_2", "epsilon");
    system.follow("nadam", keras::nadam, "beta_1", "beta_2", "epsilon");
    system.follow("ftrl", keras::ftrl, "learning_rate_power", "initial_accumulator_value", "l1_regularization_strength",
                  "l2_regularization_strength", "l2_shrinkage_regularization_strength", "beta");
    system.follow("lion", keras::lion, "beta_1", "beta_2");
    system.follow("lamb", keras::lamb, "beta_1", "beta_2", "epsilon");
    system.follow("adam_ema", adam_ema, "beta_1", "beta_2", "epsilon", "ema_momentum");
    CHECK(system.left() == std::set<std::string>{});
}
