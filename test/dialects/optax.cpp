// Every function of gradstep::dialects::optax against optax's own numbers.
#include <gradstep/dialects/optax.hpp>

#include "golden.hpp"

namespace optax = gradstep::dialects::optax;

// Adam, and of its weights optax.ema, which is corrected where it is read, or
// optax.incremental_update.
namespace {

struct adam_ema_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8, decay = 0.999;
    static constexpr auto hyperparameters = gs::hyperparameter_list{
        gs::hyperparameter{"b1", &adam_ema_arguments::b1}, gs::hyperparameter{"b2", &adam_ema_arguments::b2},
        gs::hyperparameter{"eps", &adam_ema_arguments::eps}, gs::hyperparameter{"decay", &adam_ema_arguments::decay}};
};
auto adam_ema(adam_ema_arguments with) {
    return gs::averaged{optax::adam({with.b1, with.b2, with.eps}), gs::ema{.decay = with.decay, .debias = true}};
}

struct adam_incremental_update_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8, step_size = 0.0625;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"b1", &adam_incremental_update_arguments::b1},
                                gs::hyperparameter{"b2", &adam_incremental_update_arguments::b2},
                                gs::hyperparameter{"eps", &adam_incremental_update_arguments::eps},
                                gs::hyperparameter{"step_size", &adam_incremental_update_arguments::step_size}};
};
auto adam_incremental_update(adam_incremental_update_arguments with) {
    return gs::averaged{optax::adam({with.b1, with.b2, with.eps}), gs::ema{1 - with.step_size}};
}

// noisy_sgd without noise, whose random numbers differ: test/rules/noisy.cpp compares its variance.
struct noiseless_sgd_arguments {
    double eta = 0, gamma = optax::noisy_sgd().gamma;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"eta", &noiseless_sgd_arguments::eta},
                                gs::hyperparameter{"gamma", &noiseless_sgd_arguments::gamma}};
};
auto noiseless_sgd(noiseless_sgd_arguments with) { return optax::noisy_sgd({with.eta, with.gamma}); }

struct adam_lookahead_arguments {
    double b1 = 0.9, b2 = 0.999, eps = 1e-8, slow_step_size = 0.5;
    std::int64_t sync_period = 5;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"b1", &adam_lookahead_arguments::b1},
                                gs::hyperparameter{"b2", &adam_lookahead_arguments::b2},
                                gs::hyperparameter{"eps", &adam_lookahead_arguments::eps},
                                gs::hyperparameter{"slow_step_size", &adam_lookahead_arguments::slow_step_size},
                                gs::hyperparameter{"sync_period", &adam_lookahead_arguments::sync_period}};
};
auto adam_lookahead(adam_lookahead_arguments with) {
    return gs::averaged{optax::adam({with.b1, with.b2, with.eps}),
                        gs::lookahead{.period = with.sync_period, .alpha = with.slow_step_size}};
}

} // namespace

TEST_CASE("the dialect optax gives optax's numbers", "[dialects]") {
    // 1 - beta is Python's, in double; beta^t is an array's.
    golden::system system("optax", golden::scalars_in_element::powers);
    system.follow("sgd", optax::sgd);
    system.follow("sgd_momentum", optax::sgd_momentum);
    system.follow("sgd_nesterov", optax::sgd_nesterov);
    system.follow("noisy_sgd", noiseless_sgd);
    system.follow("adagrad", optax::adagrad);
    system.follow("adadelta", optax::adadelta);
    system.follow("rmsprop", optax::rmsprop);
    system.follow("rmsprop_centered", optax::rmsprop_centered);
    system.follow("rmsprop_momentum", optax::rmsprop_momentum);
    system.follow("rmsprop_centered_momentum", optax::rmsprop_centered_momentum);
    system.follow("adam", optax::adam);
    system.follow<gs::decoupled>("adamw", optax::adamw);
    system.follow("nadam", optax::nadam);
    system.follow<gs::decoupled>("nadamw", optax::nadamw);
    system.follow("amsgrad", optax::amsgrad);
    system.follow("adamax", optax::adamax);
    system.follow<gs::decoupled>("adamaxw", optax::adamaxw);
    system.follow("radam", optax::radam);
    system.follow("adabelief", optax::adabelief);
    system.follow("yogi", optax::yogi);
    system.follow<gs::decoupled>("lion", optax::lion);
    system.follow("lamb", optax::lamb);
    system.follow<gs::l2>("lars", optax::lars);
    system.follow("signum", optax::signum);
    system.follow<gs::decoupled>("adan", optax::adan);
    system.follow<gs::decoupled>("ademamix", optax::ademamix);
    system.follow("optimistic_gradient_descent", optax::optimistic_gradient_descent);
    system.follow("optimistic_adam_v2", optax::optimistic_adam_v2);
    system.follow("cocob", optax::cocob);
    system.follow("novograd", optax::novograd);
    system.follow("fromage", optax::fromage);
    system.follow<gs::l2>("madgrad", optax::madgrad);
    system.follow("adam_ema", adam_ema);
    system.follow("adam_incremental_update", adam_incremental_update);
    system.follow("adam_lookahead", adam_lookahead);
    system.has_scalars(golden::scalars_in_element::points);
    system.follow<gs::l2>("schedule_free_sgd", optax::schedule_free_sgd);
    system.follow("schedule_free_adamw", optax::schedule_free_adamw);
    system.has_scalars(golden::scalars_in_element::all); // optax selects the betas by step, as arrays
    system.follow("adopt", optax::adopt);
    CHECK(system.left() == std::set<std::string>{});
}
