// The schedule-free rules against the package of their authors, by the names of its options.
#include "golden.hpp"

namespace {

struct sgd_arguments {
    double momentum = 0.9, r = 0, weight_lr_power = 2;
    static constexpr auto hyperparameters = gs::hyperparameter_list{
        gs::hyperparameter{"momentum", &sgd_arguments::momentum}, gs::hyperparameter{"r", &sgd_arguments::r},
        gs::hyperparameter{"weight_lr_power", &sgd_arguments::weight_lr_power}};
};
auto sgd(sgd_arguments with) {
    return gs::schedule_free_sgd{.beta = with.momentum, .step_power = with.r, .rate_power = with.weight_lr_power};
}

struct adamw_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, r = 0, weight_lr_power = 2;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"beta1", &adamw_arguments::beta1},
                                gs::hyperparameter{"beta2", &adamw_arguments::beta2},
                                gs::hyperparameter{"eps", &adamw_arguments::eps},
                                gs::hyperparameter{"weight_decay", &adamw_arguments::weight_decay},
                                gs::hyperparameter{"r", &adamw_arguments::r},
                                gs::hyperparameter{"weight_lr_power", &adamw_arguments::weight_lr_power}};
};
auto adamw(adamw_arguments with) {
    return gs::schedule_free_adam{with.beta1, with.beta2, with.eps, with.weight_decay, with.r, with.weight_lr_power};
}

struct radam_arguments {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, r = 0, weight_lr_power = 2;
    bool silent_sgd_phase = true;
    static constexpr auto hyperparameters =
        gs::hyperparameter_list{gs::hyperparameter{"beta1", &radam_arguments::beta1},
                                gs::hyperparameter{"beta2", &radam_arguments::beta2},
                                gs::hyperparameter{"eps", &radam_arguments::eps},
                                gs::hyperparameter{"weight_decay", &radam_arguments::weight_decay},
                                gs::hyperparameter{"r", &radam_arguments::r},
                                gs::hyperparameter{"weight_lr_power", &radam_arguments::weight_lr_power},
                                gs::hyperparameter{"silent_sgd_phase", &radam_arguments::silent_sgd_phase}};
};
auto radam(radam_arguments with) {
    return gs::schedule_free_radam{
        with.beta1, with.beta2, with.eps, with.weight_decay, with.r, with.weight_lr_power, !with.silent_sgd_phase};
}

} // namespace

TEST_CASE("the schedule-free rules give the numbers of the package schedulefree", "[dialects]") {
    golden::system system("schedulefree", golden::scalars_in_element::none);
    system.follow<gs::l2>("sgd", sgd);
    system.follow("adamw", adamw);
    system.follow("radam", radam);
    CHECK(system.left() == std::set<std::string>{});
}
