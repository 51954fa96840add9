// Every function of gradstep::dialects::torch against torch's own numbers.
#include <gradstep/dialects/torch.hpp>

#include "golden.hpp"

namespace torch = gradstep::dialects::torch;

// Averages have no function in a dialect: they are policies. What torch keeps begins with the
// weights of the first step.
namespace {

struct adam_ema_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.999;
    static constexpr auto hyperparameters = gs::hyperparameter_list{
        gs::hyperparameter{"beta1", &adam_ema_arguments::beta1},
        gs::hyperparameter{"beta2", &adam_ema_arguments::beta2}, gs::hyperparameter{"eps", &adam_ema_arguments::eps},
        gs::hyperparameter{"decay", &adam_ema_arguments::decay}};
};
auto adam_ema(adam_ema_arguments with) {
    return gs::averaged{torch::adam({with.beta1, with.beta2, with.eps}), gs::ema{.decay = with.decay, .start = 1}};
}
// On the CPU torch divides w - average by the number of steps, and gradstep multiplies it by the
// rounded inverse.
auto sgd_averaged() { return gs::averaged{torch::sgd(), gs::polyak{}}; }

// The rule of ASGD; lambd is the regularizer's rate, and golden.hpp has the rates of the steps.
struct asgd_arguments {
    double lambd = 1e-4, alpha = 0.75;
    std::int64_t t0 = 1'000'000;
    static constexpr auto hyperparameters = gs::hyperparameter_list{gs::hyperparameter{"lambd", &asgd_arguments::lambd},
                                                                    gs::hyperparameter{"alpha", &asgd_arguments::alpha},
                                                                    gs::hyperparameter{"t0", &asgd_arguments::t0}};
};
auto asgd(asgd_arguments with) { return torch::asgd({.lambd = with.lambd, .alpha = with.alpha, .t0 = with.t0}).rule; }

} // namespace

TEST_CASE("the dialect torch gives torch's numbers", "[dialects]") {
    golden::system system("torch", golden::scalars_in_element::none); // they are Python's, in double
    system.follow<gs::l2>("sgd", torch::sgd);
    system.follow("sgd_momentum", torch::sgd_momentum);
    system.follow("sgd_nesterov", torch::sgd_nesterov);
    system.follow("rmsprop", torch::rmsprop);
    system.follow("rmsprop_centered", torch::rmsprop_centered);
    system.follow("rmsprop_momentum", torch::rmsprop_momentum);
    system.follow("rmsprop_centered_momentum", torch::rmsprop_centered_momentum);
    system.follow("adagrad", torch::adagrad);
    system.follow("adadelta", torch::adadelta);
    system.follow("adam", torch::adam);
    system.follow("adam_amsgrad", torch::adam_amsgrad);
    system.follow<gs::decoupled>("adamw", torch::adamw);
    system.follow("adamax", torch::adamax);
    system.follow("radam", torch::radam);
    system.follow("sparse_adam", torch::sparse_adam);
    system.follow("rprop", torch::rprop);
    system.follow("adam_ema", adam_ema);
    system.follow("sgd_averaged", sgd_averaged);
    system.follow<gs::decoupled>("asgd", asgd);
    system.has_scalars(golden::scalars_in_element::powers); // the product of mu, a number of the default type
    system.follow("nadam", torch::nadam);
    CHECK(system.left() == std::set<std::string>{});
}

TEST_CASE("asgd of the dialect torch has torch's rates and decay", "[dialects]") {
    auto const asgd = torch::asgd({.lr = 0.1, .lambd = 0.25, .alpha = 0.5, .t0 = 0});
    auto optimizer = gs::make_updater<double>(asgd.rule, asgd.regularizer, asgd.schedule);
    std::vector<double> w{2}, g{1}, average{2};
    optimizer.next_step()(w, g, average);
    double const first = (1 - 0.25 * 0.1) * 2 - 0.1;
    CHECK(std::abs(w[0] - first) < 1e-15);
    CHECK(average[0] == w[0]);
    optimizer.next_step()(w, g, average);
    double const eta = 0.1 / std::sqrt(1 + 0.25 * 0.1), second = (1 - 0.25 * eta) * first - eta;
    CHECK(std::abs(w[0] - second) < 1e-15);
    CHECK(average[0] == w[0]);
    optimizer.next_step()(w, g, average);
    CHECK(std::abs(average[0] - (second + w[0]) / 2) < 1e-15);
}
