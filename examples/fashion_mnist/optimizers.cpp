#include "optimizers.hpp"

#include <utility>

// Rules that train all tensors by one schedule. The peak rates are good ones for this network,
// found by a few trials. Rules that need more than that are in recipes/, and your own rules go into
// your_rules.cpp.
std::vector<contender> const& contenders() {
    static std::vector<contender> const all = [] {
        std::vector<contender> rules{
            with("sgd", 0.5, gs::sgd{}),
            with("momentum", 0.1, gs::momentum{}),
            with("nesterov", 0.1, gs::nesterov{}),
            with("adagrad", 0.05, gs::adagrad{}),
            with("adam", 3e-3, gs::adam{}),
            with("adamw", 3e-3, gs::adam{}, gs::decoupled{0.05}),

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
        for (contender& one : recipes()) rules.push_back(std::move(one));
        for (contender& one : your_rules()) rules.push_back(std::move(one));
        return rules;
    }();
    return all;
}
