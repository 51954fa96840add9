// The names of the public contract: every policy with its members, in their order, and their
// defaults.
#include <gradstep/compression.hpp>
#include <gradstep/gradstep.hpp>
#include <gradstep/rules/adafactor.hpp>
#include <gradstep/rules/came.hpp>
#include <gradstep/rules/momentum_sm3.hpp>
#include <gradstep/rules/muon.hpp>
#include <gradstep/rules/sm3.hpp>

#include <cmath>
#include <cstdio>
#include <string>

namespace gs = gradstep;

namespace {

int wrong = 0;

// A policy is named as its type, and what is given here is what it has when nothing is given.
template <class Policy> void has_defaults(std::string const& name, Policy const& given) {
    std::string const text = gs::describe(given);
    if (text == gs::describe(Policy{}) && text.substr(0, text.find_first_of("{(<")) == name) return;
    std::printf("%s: %s is not %s\n", name.c_str(), text.c_str(), gs::describe(Policy{}).c_str());
    ++wrong;
}
template <class Policy> void is_named(std::string const& name, Policy const& policy) {
    std::string const text = gs::describe(policy);
    if (text.substr(0, text.find_first_of("{(<")) == name) return;
    std::printf("%s: %s\n", name.c_str(), text.c_str());
    ++wrong;
}
template <class Schedule> void is_schedule(std::string const& name, Schedule const& schedule, double first) {
    is_named(name, schedule);
    auto optimizer = gs::make_updater<float>(gs::sgd{}, schedule, gs::serial_backend{}); // its numbers are allowed
    double const rate = optimizer.next_step().rate();
    if (std::abs(rate - first) <= 1e-15) return;
    std::printf("%s: the first rate is %g\n", name.c_str(), rate);
    ++wrong;
}

void rules() {
    has_defaults("sgd", gs::sgd{});
    has_defaults("add_delta", gs::add_delta{});
    has_defaults("momentum", gs::momentum{.mu = 0.9, .dampening = 0});
    has_defaults("nesterov", gs::nesterov{.mu = 0.9, .dampening = 0});
    has_defaults("dgc_momentum", gs::dgc_momentum{.mu = 0.9,
                                                  .rampup_begin_step = 0,
                                                  .rampup_step = 1,
                                                  .sparsity = {0.999},
                                                  .nesterov = false,
                                                  .num_trainers = 1});
    has_defaults("muon", gs::muon{.mu = 0.95,
                                  .nesterov = true,
                                  .scale = gs::muon_scale::original,
                                  .ns_steps = 5,
                                  .a = 3.4445,
                                  .b = -4.775,
                                  .c = 2.0315,
                                  .epsilon = 1e-7,
                                  .momentum = gs::muon_momentum::average,
                                  .matmul = {}});
    has_defaults("adafactor", gs::adafactor{.beta2_decay = -0.8,
                                            .epsilon = 1e-30,
                                            .clamp = 0,
                                            .epsilon2 = 1e-3,
                                            .d = 1,
                                            .relative_step = true,
                                            .scale_parameter = true});
    has_defaults("sm3", gs::sm3{.beta2 = 1, .epsilon = 0});
    has_defaults("momentum_sm3", gs::momentum_sm3{.beta1 = 0.9, .beta2 = 1, .epsilon = 1e-8});
    has_defaults("came",
                 gs::came{.beta1 = 0.9, .beta2 = 0.999, .beta3 = 0.9999, .epsilon1 = 1e-30, .epsilon2 = 1e-16, .d = 1});
    has_defaults("adagrad", gs::adagrad{.epsilon = 1e-10, .initial_accumulator = 0});
    has_defaults("decayed_adagrad", gs::decayed_adagrad{.rho = 0.95, .epsilon = 1e-6});
    has_defaults("adadelta", gs::adadelta{.rho = 0.95, .epsilon = 1e-6});
    has_defaults("rmsprop", gs::rmsprop{.rho = 0.99, .epsilon = 1e-8});
    has_defaults("centered_rmsprop", gs::centered_rmsprop{.rho = 0.99, .epsilon = 1e-8});
    has_defaults("momentum_rmsprop", gs::momentum_rmsprop{.rho = 0.99, .epsilon = 1e-8, .mu = 0.9});
    has_defaults("centered_momentum_rmsprop", gs::centered_momentum_rmsprop{.rho = 0.99, .epsilon = 1e-8, .mu = 0.9});
    has_defaults("adam", gs::adam{.beta1 = 0.9,
                                  .beta2 = 0.999,
                                  .epsilon = 1e-8,
                                  .epsilon_place = gs::epsilon::outside,
                                  .bias_correction = true});
    has_defaults("amsgrad", gs::amsgrad{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .bias_correction = true});
    has_defaults("nesterov_adam",
                 gs::nesterov_adam{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .bias_correction = true});
    has_defaults("adamax", gs::adamax{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .bias_correction = true});
    has_defaults("radam", gs::radam{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8});
    has_defaults(
        "nadam",
        gs::nadam{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .momentum_decay = 0.004, .bias_correction = true});
    has_defaults(
        "adabelief",
        gs::adabelief{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-16, .epsilon_root = 1e-16, .bias_correction = true});
    has_defaults(
        "yogi",
        gs::yogi{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-3, .initial_accumulator = 1e-6, .bias_correction = true});
    has_defaults(
        "adabound",
        gs::adabound{
            .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .gamma = 1e-3, .final_ratio = 100, .bias_correction = true});
    has_defaults("adapnm", gs::adapnm{.beta1 = 0.9, .beta2 = 0.999, .beta0 = 1, .epsilon = 1e-8});
    has_defaults("cocob", gs::cocob{.alpha = 100, .epsilon = 1e-8});
    has_defaults("madgrad", gs::madgrad{.mu = 0.9, .epsilon = 1e-6});
    has_defaults("ftml", gs::ftml{.beta1 = 0.6, .beta2 = 0.999, .epsilon = 1e-8});
    has_defaults(
        "optimistic_adam",
        gs::optimistic_adam{.alpha = 1, .beta = 1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .nesterov = false});
    has_defaults("optimistic_sgd", gs::optimistic_sgd{.alpha = 1, .beta = 1});
    has_defaults("pnm", gs::pnm{.beta1 = 0.9, .beta0 = 1});
    has_defaults(
        "rprop",
        gs::rprop{.initial_step = 0.01, .shrink = 0.5, .grow = 1.2, .smallest_step = 1e-6, .largest_step = 50});
    has_defaults("novograd", gs::novograd{.beta1 = 0.95, .beta2 = 0.98, .epsilon = 1e-8, .weight_decay = 0});
    has_defaults("fromage", gs::fromage{.min_norm = 0});
    has_defaults(
        "stable_adamw",
        gs::stable_adamw{.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .weight_decay = 0, .bias_correction = true});
    has_defaults("rowwise_rmsprop", gs::rowwise_rmsprop{.beta = 0.99, .epsilon = 1e-8});
    has_defaults(
        "cowclip_adagrad",
        gs::cowclip_adagrad{
            .clip_ratio = 1, .lower_bound = 1e-5, .count_decay = 0, .epsilon = 1e-8, .initial_accumulator = 0});
    has_defaults("group_adagrad", gs::group_adagrad{.l21 = 0, .beta = 0, .initial_accumulator = 0.1});
    has_defaults("group_ftrl", gs::group_ftrl{.l1 = 0, .l2 = 0, .l21 = 0, .beta = 1, .initial_accumulator = 0});
    has_defaults("cautious_adam", gs::cautious_adam{.beta1 = 0.9,
                                                    .beta2 = 0.999,
                                                    .epsilon = 1e-8,
                                                    .epsilon_place = gs::epsilon::outside,
                                                    .bias_correction = true,
                                                    .rescale = gs::rescaling::mean});
    has_defaults("cautious_lion", gs::cautious_lion{.beta1 = 0.9, .beta2 = 0.99, .rescale = gs::rescaling::mean});
    has_defaults("cautious", gs::cautious<gs::adam>{.rule = {}, .rescale = gs::rescaling::mean});
    has_defaults("lion", gs::lion{.beta1 = 0.9, .beta2 = 0.99});
    has_defaults(
        "adan",
        gs::adan{
            .beta1 = 0.98, .beta2 = 0.92, .beta3 = 0.99, .epsilon = 1e-8, .epsilon_root = 0, .bias_correction = true});
    has_defaults("laprop", gs::laprop{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-15, .bias_correction = true});
    has_defaults("ademamix",
                 gs::ademamix{.beta1 = 0.9, .beta2 = 0.999, .beta3 = 0.9999, .alpha = 5, .epsilon = 1e-8, .warmup = 0});
    has_defaults("adopt", gs::adopt{.beta1 = 0.9, .beta2 = 0.9999, .epsilon = 1e-6});
    has_defaults("qhm", gs::qhm{.beta = 0.999, .nu = 0.7});
    has_defaults("qhadam", gs::qhadam{.beta1 = 0.995, .beta2 = 0.999, .nu1 = 0.7, .nu2 = 1, .epsilon = 1e-8});
    has_defaults("sgld", gs::sgld{.temperature = 1});
    has_defaults("noisy_sgd", gs::noisy_sgd{.eta = 0.01, .gamma = 0.55});
    has_defaults("ftrl", gs::ftrl{.l1 = 0, .l2 = 0, .beta = 1, .lr_power = -0.5, .initial_accumulator = 0});
    has_defaults("proximal_adagrad", gs::proximal_adagrad{.l1 = 0, .l2 = 0, .initial_accumulator = 0.1});
    has_defaults("rowwise_adagrad", gs::rowwise_adagrad{.epsilon = 1e-10, .initial_accumulator = 0});
    has_defaults("rowwise_adam",
                 gs::rowwise_adam{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .bias_correction = true});
    has_defaults("lars", gs::lars{.mu = 0.9, .trust = 1e-3, .epsilon = 0});
    has_defaults("lamb", gs::lamb{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-6, .bias_correction = true});
    has_defaults("ema", gs::ema{.decay = 0.999, .debias = false, .start = 0});
    has_defaults("lookahead", gs::lookahead{.period = 5, .alpha = 0.5});
    has_defaults("polyak", gs::polyak{.start = 0});
    has_defaults("towards_initial", gs::towards_initial{.rate = gs::missing});
    has_defaults("window", gs::window{.rate = gs::missing, .min = 10'000, .max = 10'000});
    for (auto const place : {gs::epsilon::outside, gs::epsilon::inside, gs::epsilon::hat})
        is_named("adam", gs::adam{.epsilon_place = place});
}

void regularizers() {
    is_named("l1", gs::l1{.rate = 0.5});
    is_named("l2", gs::l2{.rate = 0.5});
    is_named("decoupled", gs::decoupled{.rate = 0.5});
    is_named("clip_value", gs::clip_value{.limit = 0.5});
    is_named("elastic_net", gs::elastic_net{.l1 = 0.5, .l2 = 0.25});
    is_named("proximal", gs::proximal{gs::l1{0.5}});
    is_named("proximal", gs::proximal{gs::l2{0.5}});
    is_named("proximal", gs::proximal{gs::elastic_net{0.5, 0.25}});
}

void schedules() {
    gs::constant const one{.rate = 1};
    is_schedule("constant", one, 1);
    is_named("external", gs::external{});
    is_schedule("poly", gs::poly{.rate = 1, .a = 0.5, .b = 1}, 1);
    is_schedule("polynomial", gs::polynomial{.rate = 1, .steps = 10, .end = 0, .power = 1}, 1);
    is_schedule("exponential", gs::exponential{.rate = 1, .decay = 0.5, .steps = 10, .staircase = false}, 1);
    is_schedule("linear", gs::linear{.rate = 1, .a = 0.5, .b = 1}, 1);
    is_schedule("inverse_time", gs::inverse_time{.rate = 1, .decay = 0.5, .steps = 10, .staircase = false}, 1);
    is_schedule("natural_exp", gs::natural_exp{.rate = 1, .decay = 0.5, .steps = 10, .staircase = false}, 1);
    is_schedule("piecewise", gs::piecewise{.boundaries = {10, 20}, .rates = {1, 0.5, 0.25}}, 1);
    is_schedule("cosine", gs::cosine{.rate = 1, .steps = 10, .end = 0}, 1);
    is_schedule(
        "warmup",
        gs::warmup<gs::constant>{.after = one, .steps = 10, .start = 0, .shape = gs::ramp::linear, .in_place = false},
        0);
    is_schedule("warmup", gs::warmup{one, 10, 0.5, gs::ramp::exponential}, 0.5);
    is_schedule("warmup", gs::warmup{one, 10, 0.5, gs::ramp::constant}, 0.5);
    is_schedule("cosine_restarts", gs::cosine_restarts{.rate = 1, .steps = 10, .end = 0, .multiply = 1, .decay = 1}, 1);
    is_schedule("one_cycle",
                gs::one_cycle{.rate = 1, .steps = 10, .rise = 0.3, .start_divisor = 25, .end_divisor = 1e4}, 1.0 / 25);
    is_schedule("one_cycle_momentum",
                gs::one_cycle_momentum{.steps = 10, .low = 0.5, .high = 0.75, .rise = 0.3, .shape = gs::anneal::linear},
                0.75);
    for (auto const mode : {gs::cyclic_mode::triangular, gs::cyclic_mode::triangular2, gs::cyclic_mode::exp_range})
        is_schedule("cyclic", gs::cyclic{.low = 0.25, .high = 1, .rise = 10, .fall = 20, .mode = mode, .gamma = 1},
                    0.25);
    is_named("noam", gs::noam{.rate = 1, .width = 64, .steps = 10});
    is_schedule("warmup_stable_decay",
                gs::warmup_stable_decay{.rate = 1, .warmup = 2, .stable = 3, .decay = 4, .start = 0, .end = 0}, 0);
    is_schedule("chain", gs::chain{one, 10, gs::constant{0.5}}, 1);
    is_schedule("scaled", gs::scaled<gs::constant>{.inner = one, .factor = 0.5}, 0.5);
    is_schedule("clamped", gs::clamped<gs::constant>{.inner = one, .low = 0, .high = 0.5}, 0.5);
    is_schedule("by_samples", gs::by_samples<gs::constant>{.inner = one}, 1);
    is_schedule("by_epochs", gs::by_epochs<gs::constant>{.inner = one}, 1);
}

} // namespace

int main() {
    rules();
    regularizers();
    schedules();
    return wrong == 0 ? 0 : 1;
}
