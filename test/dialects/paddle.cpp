// Every function of gradstep::dialects::paddle against Paddle's own numbers.
#include <gradstep/dialects/paddle.hpp>

#include "golden.hpp"

namespace paddle = gradstep::dialects::paddle;

// paddle.incubate.ModelAverage beside SGD.
namespace {

struct model_average_arguments {
    double average_window_rate = 0.15;
    std::int64_t min_average_window = 10'000, max_average_window = 10'000;
};
auto sgd_model_average(model_average_arguments with) {
    return gs::averaged{paddle::sgd(),
                        gs::window{with.average_window_rate, with.min_average_window, with.max_average_window}};
}

} // namespace

TEST_CASE("the dialect paddle gives Paddle's numbers", "[dialects]") {
    // The scalars of an operation are of the parameter's type, and powers of beta are running products.
    golden::system system("paddle", golden::scalars_in_element::all);
    system.follow("sgd", paddle::sgd);
    system.follow("momentum", paddle::momentum, "momentum");
    system.follow("momentum_nesterov", paddle::momentum_nesterov, "momentum");
    system.follow("adagrad", paddle::adagrad, "epsilon", "initial_accumulator_value");
    system.follow("decayed_adagrad", paddle::decayed_adagrad, "decay", "epsilon");
    system.follow("adadelta", paddle::adadelta, "epsilon", "rho");
    system.follow("rmsprop", paddle::rmsprop, "rho", "epsilon");
    system.follow("rmsprop_centered", paddle::rmsprop_centered, "rho", "epsilon");
    system.follow("rmsprop_momentum", paddle::rmsprop_momentum, "rho", "epsilon", "momentum");
    system.follow("rmsprop_centered_momentum", paddle::rmsprop_centered_momentum, "rho", "epsilon", "momentum");
    system.follow("adam", paddle::adam, "beta1", "beta2", "epsilon");
    system.follow("adam_amsgrad", paddle::adam_amsgrad, "beta1", "beta2", "epsilon");
    system.follow<gs::decoupled>("adamw", paddle::adamw, "beta1", "beta2", "epsilon");
    system.follow<gs::decoupled>("adamw_amsgrad", paddle::adamw_amsgrad, "beta1", "beta2", "epsilon");
    system.follow("adamax", paddle::adamax, "beta1", "beta2", "epsilon");
    system.follow("nadam", paddle::nadam, "beta1", "beta2", "epsilon", "momentum_decay");
    system.follow("radam", paddle::radam, "beta1", "beta2", "epsilon");
    system.follow("lamb", paddle::lamb, "lamb_weight_decay", "beta1", "beta2", "epsilon");
    system.follow("ftrl", paddle::ftrl, "l1", "l2", "lr_power");
    system.follow("sgd_model_average", sgd_model_average, "average_window_rate", "min_average_window",
                  "max_average_window");
    CHECK(system.left() == std::set<std::string>{});
}
