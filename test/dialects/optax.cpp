// Every function of gradstep::dialects::optax against optax's own numbers.
#include <gradstep/dialects/optax.hpp>

#include "golden.hpp"

namespace optax = gradstep::dialects::optax;

// Adam, and of its weights optax.ema, which is corrected where it is read, or optax.incremental_update.
namespace {

struct adam_ema_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8, decay = 0.999;
};
auto adam_ema(adam_ema_arguments with) {
    return gs::averaged{optax::adam({with.b1, with.b2, with.eps}), gs::ema{.decay = with.decay, .debias = true}};
}

struct adam_incremental_update_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8, step_size = 0.0625;
};
auto adam_incremental_update(adam_incremental_update_arguments with) {
    return gs::averaged{optax::adam({with.b1, with.b2, with.eps}), gs::ema{1 - with.step_size}};
}

} // namespace

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
    system.follow("adam_ema", adam_ema, "b1", "b2", "eps", "decay");
    system.follow("adam_incremental_update", adam_incremental_update, "b1", "b2", "eps", "step_size");
    CHECK(system.left() == std::set<std::string>{});
}
