#include "optimizers.hpp"

#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/all.hpp>

// Rules that train all tensors by one schedule. The peak rates are good ones for this network,
// found by a few trials.
std::vector<contender> default_optimizers() {
    return {
        with("sgd", 0.5, gs::sgd{}),           with("momentum", 0.1, gs::momentum{}),
        with("nesterov", 0.1, gs::nesterov{}), with("adagrad", 0.05, gs::adagrad{}),
        with("adam", 3e-3, gs::adam{}),        with("adamw", 3e-3, gs::adam{}, gs::decoupled{0.05}),
    };
}
