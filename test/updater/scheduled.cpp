// Hyperparameters that follow schedules: the bits of a policy that has the numbers of each step,
// and nothing else.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

#include <support/catch.hpp>
#include <support/elements.hpp>
#include <support/numbers.hpp>
#include <support/refusal.hpp>

namespace gs = gradstep;

namespace {

gs::polynomial const rising{.rate = 0.5, .steps = 10, .end = 0.9};
gs::cosine const falling{.rate = 0.25, .steps = 7};
gs::constant const lr{0.125};

double at(auto const& schedule, std::int64_t t) { return schedule(gs::clock{.step = t}); }

/// Trains by `optimizer`, and by a new updater with the numbers of each step, which `plain(t)`
/// makes: whether each step has the same bits, also with the options of a step and of its tensors.
template <class Updater, class Plain> bool has_bits_of(Updater optimizer, Plain const& plain) {
    using traits = typename Updater::traits;
    static_assert(std::is_same_v<typename Updater::rule_type, typename decltype(plain(0))::rule_type>);
    static_assert(std::is_same_v<typename Updater::regularizer_type, typename decltype(plain(0))::regularizer_type>);
    using storage = typename traits::storage;
    std::size_t const n = 1027;
    std::vector<storage> w = numbers<storage>(n, 1), g = numbers<storage>(n, 2);
    std::array<std::vector<typename traits::state>, Updater::slots> state;
    for (std::size_t i = 0; i != Updater::slots; ++i) state[i].resize(Updater::slot_size(i, n));
    std::apply([&](auto&... s) { optimizer.initialize(w, s...); }, state);
    auto w2 = w;
    auto state2 = state;
    bool same = true;
    auto const step = [&](auto& by, auto& weight, auto& slots, std::int64_t t) {
        auto const next = by.next_step({.gradient_scale = t % 3 == 0 ? 0.5 : 1}, {.decay = t % 4 == 1 ? 0.5 : 1});
        std::apply(
            [&](auto&... s) {
                using of = std::remove_cvref_t<decltype(by)>;
                gs::slice<of> tensor{weight, g, s...};
                if (t % 5 == 2) tensor.rate_scale = 0.5;
                if (t % 5 == 3) tensor.decay = 0.25;
                if (t % 5 == 4) tensor.decay = false;
                next(tensor);
            },
            slots);
    };
    for (std::int64_t t = 0; t < 15; ++t) {
        step(optimizer, w, state, t);
        auto constant = plain(t);
        constant.seek({.step = t});
        step(constant, w2, state2, t);
        same = same && same_bits(w, w2);
        for (std::size_t i = 0; i != Updater::slots; ++i) same = same && same_bits(state[i], state2[i]);
    }
    return same;
}

} // namespace

TEMPLATE_LIST_TEST_CASE("scheduled has the bits of the numbers of each step", "", elements_of_policies) {
    using element = TestType;
    CHECK(has_bits_of(gs::make_updater<element>(
                          gs::scheduled{gs::adam{}, gs::moving<"beta1">(rising), gs::moving<"epsilon">(falling)},
                          gs::scheduled{gs::decoupled{}, gs::moving<"rate">(falling)}, lr),
                      [](std::int64_t t) {
                          return gs::make_updater<element>(gs::adam{.beta1 = at(rising, t), .epsilon = at(falling, t)},
                                                           gs::decoupled{at(falling, t)}, lr);
                      }));
    CHECK(has_bits_of(
        gs::make_updater<element>(gs::scheduled{gs::averaged{gs::momentum{}, gs::ema{}}, gs::moving<"rule.mu">(rising),
                                                gs::moving<"average.decay">(falling)},
                                  lr),
        [](std::int64_t t) {
            return gs::make_updater<element>(
                gs::averaged{gs::momentum{.mu = at(rising, t)}, gs::ema{.decay = at(falling, t)}}, lr);
        }));
    CHECK(has_bits_of(
        gs::make_updater<element>(gs::scheduled{gs::lamb{}, gs::moving<"beta2">(rising)},
                                  gs::scheduled{gs::proximal{gs::l2{}}, gs::moving<"penalty.rate">(falling)}, lr),
        [](std::int64_t t) {
            return gs::make_updater<element>(gs::lamb{.beta2 = at(rising, t)}, gs::proximal{gs::l2{at(falling, t)}},
                                             lr);
        }));
    CHECK(has_bits_of(gs::make_updater<element>(
                          gs::sgd{},
                          gs::scheduled{gs::all_of{gs::clip_value{1}, gs::after_step{gs::decoupled{}}, gs::l2{}},
                                        gs::moving<"regularizers[1].decay.rate">(falling),
                                        gs::moving<"regularizers[2].rate">(rising)},
                          lr),
                      [](std::int64_t t) {
                          return gs::make_updater<element>(gs::sgd{},
                                                           gs::all_of{gs::clip_value{1},
                                                                      gs::after_step{gs::decoupled{at(falling, t)}},
                                                                      gs::l2{at(rising, t)}},
                                                           lr);
                      }));
}

TEST_CASE("a hyperparameter follows the clock that the learning rate follows") {
    auto optimizer = gs::make_updater<float>(
        gs::scheduled{gs::adam{},
                      gs::moving<"beta1">(gs::by_samples{gs::polynomial{.rate = 0, .steps = 100, .end = 0.5}}),
                      gs::moving<"beta2">([](gs::clock now) { return now.epoch < 3 ? 0.5 : 0.75; })},
        lr);
    CHECK(optimizer.rule().beta1 == 0); // before the first step: the values at the start
    optimizer.next_step({.samples = 50});
    CHECK(optimizer.rule().beta1 == 0);
    optimizer.next_step({.samples = 50, .epoch = 3});
    CHECK(optimizer.rule().beta1 == 0.25);
    CHECK(optimizer.rule().beta2 == 0.75);
    optimizer.next_step();
    CHECK(optimizer.rule().beta1 == 0.5);
    optimizer.seek({.step = 7, .samples = 25, .epoch = 0});
    optimizer.next_step();
    CHECK(optimizer.rule().beta1 == 0.125);
    CHECK(optimizer.rule().beta2 == 0.5);
}

TEST_CASE("a value out of range is refused with the step, and nothing has changed") {
    gs::piecewise const leaves{.boundaries = {1, 3}, .rates = {0.5, 0.75, 1}};
    auto optimizer = gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"beta1">(leaves)},
                                             gs::scheduled{gs::decoupled{}, gs::moving<"rate">(rising)}, lr);
    for (int t = 0; t < 4; ++t) optimizer.next_step();
    gs::clock const before = optimizer.clock();
    double const decay = optimizer.regularizer().rate;
    for (int again = 0; again < 2; ++again)
        CHECK(refusal<gs::value_error>([&] { optimizer.next_step(); }) ==
              "adam.beta1 at step 5: 1 is out of range; expected [0, 1)");
    CHECK(optimizer.clock() == before);
    CHECK(optimizer.rule().beta1 == 0.75);
    CHECK(optimizer.regularizer().rate == decay);

    auto const not_a_number = [](gs::clock) { return std::nan(""); };
    CHECK(refusal<gs::value_error>([&] {
              gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"epsilon">(not_a_number)}, lr);
          }) == "adam.epsilon at step 1: nan is out of range; expected finite and >= 0");
    CHECK(refusal<gs::value_error>([&] {
              gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"epsilon">(gs::constant{1e300})}, lr);
          }) == "adam.epsilon at step 1: 1e+300 is out of range; expected at most 3.4028234663852886e+38, the largest "
                "number of the element's arithmetic");
    // The numbers of the schedule itself, and conditions that a step checks.
    CHECK(refusal<gs::value_error>([&] {
              gs::make_updater<float>(gs::scheduled{gs::adam{}, gs::moving<"beta1">(gs::cosine{.rate = 0.5})}, lr);
          }) == "cosine.steps: is missing; expected a number that is >= 1");
    auto decayed = gs::make_updater<float>(
        gs::sgd{}, gs::scheduled{gs::decoupled{}, gs::moving<"rate">(gs::piecewise{{0}, {4, 8}})}, lr);
    decayed.next_step();
    CHECK(refusal<gs::value_error>([&] { decayed.next_step(); }) ==
          "decoupled: lr * rate = 0.125 * 8; expected < 1, or the weight changes its sign");
    CHECK(decayed.regularizer().rate == 4);
    CHECK(decayed.clock().step == 1);
    // A hyperparameter that follows none is still checked.
    CHECK(refusal<gs::value_error>([&] {
              gs::make_updater<float>(gs::scheduled{gs::adam{.beta2 = 2}, gs::moving<"beta1">(rising)}, lr);
          }).find("adam.beta2: 2 is out of range; expected [0, 1)") != std::string::npos);
}

TEST_CASE("a scheduled policy is described with its schedules") {
    gs::scheduled const rule{gs::averaged{gs::momentum{}, gs::ema{}}, gs::moving<"rule.mu">(gs::constant{0.5}),
                             gs::moving<"average.decay">(gs::constant{0.25})};
    CHECK(gs::describe(rule) ==
          "averaged{rule = momentum{mu = constant{rate = 0.5}, dampening = 0, rate_place = outside}, "
          "average = ema{decay = constant{rate = 0.25}, debias = false, start = 0}}");
    gs::scheduled const decay{gs::all_of{gs::clip_value{1}, gs::decoupled{}},
                              gs::moving<"regularizers[1].rate">(gs::constant{0.125})};
    auto const optimizer = gs::make_updater<float>(rule, decay, lr);
    CHECK(optimizer.description().find("mu = constant{rate = 0.5}") != std::string::npos);
    auto const own =
        gs::make_updater<float>(gs::scheduled{gs::momentum{}, gs::moving<"mu">([](gs::clock) { return 0.5; })}, lr);
    CHECK(own.description().find("mu = a function of the clock") != std::string::npos);
}

TEST_CASE("AdamC's decay by lr^2 / highest lr is a decay that follows the schedule of the rate") {
    gs::cosine const rate{.rate = 0.5, .steps = 30};
    double const highest = 0.5, decay = 0.25;
    auto optimizer = gs::make_updater<double>(
        gs::sgd{}, gs::scheduled{gs::decoupled{}, gs::moving<"rate">(gs::scaled{rate, decay / highest})}, rate);
    std::vector<double> w{1}, g{0.125};
    long double x = 1, bound = 0;
    for (std::int64_t t = 0; t < 30; ++t) {
        optimizer.next_step()(w, g);
        long double const lr_t = rate({.step = t}), factor = 1 - lr_t * lr_t / highest * decay;
        x = x * factor - lr_t * g[0];
        // The rate, the factor, its product and the sum round once each, and the factor is at most
        // 1.
        bound = bound + 0x1p-53L * (4 * 2);
        CHECK(std::abs(w[0] - x) <= bound);
    }
}

TEST_CASE("Adam with OneCycleLR's momentum divides by 1 - beta1^t of today's beta1") {
    // The formula of torch.optim.AdamW under OneCycleLR, which sets betas[0] before each step, in
    // long double.
    gs::one_cycle const rate{.rate = 0.1, .steps = 40};
    gs::one_cycle_momentum const momentum{.steps = 40};
    auto optimizer = gs::make_updater<double>(gs::scheduled{gs::adam{}, gs::moving<"beta1">(momentum)}, rate);
    std::vector<double> w{1}, g{0}, m{0}, v{0};
    long double x = 1, first = 0, second = 0, bound = 0;
    constexpr long double u = 0x1p-53L;
    for (std::int64_t t = 0; t < 45; ++t) {
        g[0] = std::cos(static_cast<double>(t)) + 0.5;
        optimizer.next_step()(w, g, m, v);
        long double const beta1 = momentum({.step = t}), beta2 = 0.999, n = static_cast<long double>(t + 1);
        first = beta1 * first + (1 - beta1) * g[0];
        second = beta2 * second + (1 - beta2) * g[0] * g[0];
        long double const root = std::sqrt(second / (1 - std::pow(beta2, n))) + 1e-8L;
        long double const move = rate({.step = t}) * first / (1 - std::pow(beta1, n)) / root;
        x -= move;
        // m and v are averages of t + 1 terms with 3 roundings each. A bias correction has an error
        // of at most 2 u n / (1 - beta^n), which is at most 4 u / (1 - beta); beta2 is 0.999. Six
        // more roundings; x is rounded once.
        long double const largest = 1.5L * rate({.step = t}) / ((1 - std::pow(beta1, n)) * root);
        bound += u * ((3 * n + 4 / (1 - beta2) + 4 / (1 - beta1) + 6) * largest + std::abs(x));
        CHECK(std::abs(w[0] - x) <= bound);
    }
}
