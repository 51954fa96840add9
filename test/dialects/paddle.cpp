// Every function of gradstep::dialects::paddle against Paddle's own numbers.
#include <gradstep/dialects/paddle.hpp>

#include "golden.hpp"

namespace paddle = gradstep::dialects::paddle;

// paddle.incubate.ModelAverage beside SGD.
namespace {

struct model_average_arguments {
    double average_window_rate = 0.15;
    std::int64_t min_average_window = 10'000, max_average_window = 10'000;
    static constexpr auto hyperparameters = gs::hyperparameter_list{
        gs::hyperparameter{"average_window_rate", &model_average_arguments::average_window_rate},
        gs::hyperparameter{"min_average_window", &model_average_arguments::min_average_window},
        gs::hyperparameter{"max_average_window", &model_average_arguments::max_average_window}};
};
auto sgd_model_average(model_average_arguments with) {
    return gs::averaged{paddle::sgd(),
                        gs::window{with.average_window_rate, with.min_average_window, with.max_average_window}};
}

} // namespace

TEST_CASE("the dialect paddle gives Paddle's numbers", "[dialects]") {
    // The scalars of an operation are of the parameter's type, and powers of beta are running
    // products.
    golden::system system("paddle", golden::scalars_in_element::all);
    system.follow("sgd", paddle::sgd);
    system.follow("momentum", paddle::momentum);
    system.follow("momentum_nesterov", paddle::momentum_nesterov);
    system.follow("adagrad", paddle::adagrad);
    system.follow("decayed_adagrad", paddle::decayed_adagrad);
    system.follow("adadelta", paddle::adadelta);
    system.follow("rmsprop", paddle::rmsprop);
    system.follow("rmsprop_centered", paddle::rmsprop_centered);
    system.follow("rmsprop_momentum", paddle::rmsprop_momentum);
    system.follow("rmsprop_centered_momentum", paddle::rmsprop_centered_momentum);
    system.follow("adam", paddle::adam);
    system.follow("adam_amsgrad", paddle::adam_amsgrad);
    system.follow<gs::decoupled>("adamw", paddle::adamw);
    system.follow<gs::decoupled>("adamw_amsgrad", paddle::adamw_amsgrad);
    system.follow("adamax", paddle::adamax);
    system.follow("nadam", paddle::nadam);
    system.follow("radam", paddle::radam);
    system.follow("lamb", paddle::lamb);
    system.follow("ftrl", paddle::ftrl);
    system.follow("rprop", paddle::rprop);
    system.follow("sgd_model_average", sgd_model_average);
    CHECK(system.left() == std::set<std::string>{});
}
