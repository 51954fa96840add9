// Every function of gradstep::dialects::keras against Keras' own numbers.
#include <gradstep/dialects/keras.hpp>

#include "golden.hpp"

namespace keras = gradstep::dialects::keras;

// use_ema of Adam, which begins with the weights of the first step.
namespace {

struct adam_ema_arguments {
    double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-7, ema_momentum = 0.99;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"beta_1", &adam_ema_arguments::beta_1},
                                gs::hyperparameter{"beta_2", &adam_ema_arguments::beta_2},
                                gs::hyperparameter{"epsilon", &adam_ema_arguments::epsilon},
                                gs::hyperparameter{"ema_momentum", &adam_ema_arguments::ema_momentum}};
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
    system.follow("sgd_momentum", keras::sgd_momentum);
    system.follow("sgd_nesterov", keras::sgd_nesterov);
    system.follow("rmsprop", keras::rmsprop);
    system.follow("rmsprop_centered", keras::rmsprop_centered);
    system.follow("rmsprop_momentum", keras::rmsprop_momentum);
    system.follow("rmsprop_centered_momentum", keras::rmsprop_centered_momentum);
    system.follow("adam", keras::adam);
    system.follow("adam_amsgrad", keras::adam_amsgrad);
    system.follow<gs::decoupled>("adamw", keras::adamw);
    system.follow<gs::decoupled>("adamw_amsgrad", keras::adamw_amsgrad);
    system.follow("adadelta", keras::adadelta);
    system.follow("adagrad", keras::adagrad);
    system.follow("adamax", keras::adamax);
    system.follow("nadam", keras::nadam);
    system.follow("ftrl", keras::ftrl);
    system.follow("lion", keras::lion);
    system.follow("lamb", keras::lamb);
    system.follow("adam_ema", adam_ema);
    CHECK(system.left() == std::set<std::string>{});
}
