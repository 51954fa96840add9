#include "optimizers.hpp"

#include <gradstep/rules/all.hpp>

// As optimizers.cpp. Rules that need more than a schedule are in recipes/, and your own rules go
// into your_rules.cpp.
std::vector<contender> more_optimizers() {
    return {
        with("adabelief", 3e-3, gs::adabelief{}),
        with("adadelta", 1.0, gs::adadelta{}),
        with("adamax", 1e-2, gs::adamax{}),
        with("amsgrad", 3e-3, gs::amsgrad{}),
        with("centered_momentum_rmsprop", 3e-4, gs::centered_momentum_rmsprop{}),
        with("centered_rmsprop", 2e-3, gs::centered_rmsprop{}),
        // forgets the initial weights: for linear models only
        with("constant_rate_ftrl", 0.05, gs::constant_rate_ftrl{}),
        with("decayed_adagrad", 2e-3, gs::decayed_adagrad{}),
        with("ftrl", 0.4, gs::ftrl{}),
        with("lamb", 1e-2, gs::lamb{}),
        with("lars", 2.0, gs::lars{}),
        with("lion", 1e-3, gs::lion{}),
        with("momentum_rmsprop", 3e-4, gs::momentum_rmsprop{}),
        with("nadam", 3e-3, gs::nadam{}),
        with("nesterov_adam", 3e-3, gs::nesterov_adam{}),
        with("proximal_adagrad", 0.05, gs::proximal_adagrad{}),
        with("radam", 3e-3, gs::radam{}),
        with("rmsprop", 2e-3, gs::rmsprop{}),
        with("rowwise_adagrad", 3e-2, gs::rowwise_adagrad{}),
        with("two_buffer_adagrad", 0.05, gs::two_buffer_adagrad{}),
        with("rowwise_adam", 1e-2, gs::rowwise_adam{}),
        with("yogi", 1e-2, gs::yogi{}),
    };
}
