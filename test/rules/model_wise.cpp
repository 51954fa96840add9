// The model-wise rules against the packages of their authors and optax, on a model of two tensors;
// what the steps of all model-wise rules refuse.
#include <golden/model_wise.hpp>
#include <support/catch.hpp>

#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gs = gradstep;

namespace {

namespace there = golden::model_wise;
using numbers = std::vector<double>;

// A model of two tensors under a model-wise rule, in memory of its own.
template <class Updater> class two_tensors {
public:
    explicit two_tensors(Updater u) : updater(std::move(u)) {
        for (std::size_t k = 0; k < 2; ++k) {
            w[k] = there::sequence(1 + k, there::sizes[k]);
            g[k].resize(there::sizes[k]);
            for (auto& slot : state[k]) slot.resize(there::sizes[k]);
        }
        updater.initialize(slices());
    }
    std::vector<gs::slice<Updater>> slices() {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
            return std::vector<gs::slice<Updater>>{{w[0], g[0], state[0][I]...}, {w[1], g[1], state[1][I]...}};
        }
        (std::make_index_sequence<Updater::slots>{});
    }
    // w - noise / 8, as test/golden/model_wise.py has it.
    void set_gradient(std::size_t t) {
        for (std::size_t k = 0; k < 2; ++k) {
            auto const noise = there::sequence(t + 3 + k, there::sizes[k]);
            for (std::size_t i = 0; i < noise.size(); ++i) g[k][i] = w[k][i] - noise[i] / 8;
        }
    }
    void train(std::size_t steps) {
        for (std::size_t t = 0; t < steps; ++t) {
            set_gradient(t);
            updater.next_step({.rate = there::rates[t], .loss = there::losses[t]})(slices());
        }
    }

    Updater updater;
    std::array<numbers, 2> w, g;
    std::array<std::array<numbers, Updater::slots>, 2> state;
};

// Both sides compute the same sums of 57 numbers below 8, in other orders, and some 40 other
// operations a step. Its errors enter the gradients of later steps, and the quotient of two sums,
// which is as well conditioned as the sum of <g, x0 - w> is: here all partial sums are below 16
// times the sum. A wrong term moves the weights by more than 1e-3.
constexpr double relative = static_cast<double>(there::steps) * (57 + 40) * 8 * 16 * 0x1p-52;

// What the model's numbers in the clock are called there: the first `count` numbers of the state
// from `first` on.
template <class Rule, class Regularizer, std::size_t N>
void compare(Rule const& rule, Regularizer const& regularizer, std::array<double, N> const& theirs,
             std::vector<std::size_t> const& in_clock) {
    two_tensors model(gs::make_updater<double>(rule, regularizer, gs::external{}));
    model.train(there::steps);
    std::size_t at = 0;
    for (auto const& w : model.w)
        for (double const x : w) {
            CAPTURE(at);
            CHECK(x == Approx(theirs[at]).epsilon(0).margin(8 * relative));
            ++at;
        }
    for (std::size_t const i : in_clock)
        CHECK(model.updater.clock().state[i] == Approx(theirs[at++]).epsilon(relative));
    CHECK(at == N);
}

} // namespace

TEST_CASE("prodigy is that of its authors' package, and optax's", "[rules]") {
    gs::prodigy const rule{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 1e-3, .d0 = 1.0 / 128};
    compare(rule, gs::decoupled{0.125}, there::prodigyopt, {0, 1, 2});
    gs::prodigy other = rule;
    other.growth_rate = 1.25;
    other.use_bias_correction = true;
    compare(other, gs::l2{0.125}, there::prodigyopt_bounded, {0, 1, 2});
    other = rule;
    other.use_bias_correction = true;
    compare(other, gs::decoupled{0.125}, there::optax_prodigy, {0, 2});
    other.safeguard_warmup = true;
    other.beta3 = other.d_coef = 0.5;
    compare(other, gs::decoupled{0.125}, there::optax_prodigy_safeguard, {0, 2});
    other.use_bias_correction = false;
    compare(other, gs::none{}, there::prodigyopt_safeguard, {0, 1, 2});
}

TEST_CASE("dog is that of its authors' package, and optax's", "[rules]") {
    using enum gs::dog_start;
    gs::l2 const decay{0.25};
    gs::dog const rule{.initial = 0.125, .epsilon = 1e-3};
    compare(rule, decay, there::dog, {0, 1});
    compare(rule, decay, there::optax_dog_heuristic, {0, 1});
    compare(gs::dog{.initial = 0.125, .epsilon = 1e-3, .initial_is = distance}, decay, there::optax_dog_distance,
            {0, 1});
    gs::dog const by_step{.initial = 0.125, .epsilon = 1e-3, .initial_is = step_size};
    compare(by_step, decay, there::dog_eta, {0, 1});
    compare(by_step, decay, there::optax_dog_learning_rate, {0, 1});
}

TEST_CASE("dowg is optax's", "[rules]") {
    compare(gs::dowg{.initial = 0.25, .epsilon = 1e-3}, gs::l2{0.25}, there::optax_dowg, {0, 1});
}

TEST_CASE("dadapt_adam is that of its authors' package, and optax's", "[rules]") {
    gs::dadapt_adam rule{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 1e-3, .d0 = 1.0 / 128};
    compare(rule, gs::decoupled{0.125}, there::dadapt_adam, {0, 1});
    rule.use_bias_correction = true;
    compare(rule, gs::decoupled{0.125}, there::optax_dadapt_adamw, {0, 1});
    rule.growth_rate = 1.25;
    compare(rule, gs::l2{0.125}, there::dadapt_adam_bounded, {0, 1});
}

TEST_CASE("dadapt_sgd is that of its authors' package", "[rules]") {
    compare(gs::dadapt_sgd{.mu = 0.25, .d0 = 1.0 / 16}, gs::none{}, there::dadapt_sgd, {0, 1, 2});
    compare(gs::dadapt_sgd{.d0 = 1.0 / 16, .growth_rate = 1.25}, gs::none{}, there::dadapt_sgd_bounded, {0, 1, 2});
}

TEST_CASE("polyak_sgd is optax's", "[rules]") {
    gs::polyak_sgd rule{.f_min = 0.5, .max_learning_rate = 0.125};
    compare(rule, gs::none{}, there::optax_polyak, {});
    rule.f_min = 9;
    rule.epsilon = 0.25;
    rule.variant = gs::polyak_variant::sps_plus;
    compare(rule, gs::none{}, there::optax_polyak_plus, {});
}

TEST_CASE("momo and momo_adam are those of their authors' package, and optax's", "[rules]") {
    gs::momo rule{.beta = 0.75, .lower_bound = 0.5};
    compare(rule, gs::none{}, there::optax_momo, {0, 1, 2});
    rule.adapt_lower_bound = true;
    compare(rule, gs::none{}, there::optax_momo_adapts, {0, 1, 2});
    rule.decay = 0.25;
    rule.bias_correction = true;
    compare(rule, gs::none{}, there::momo_corrected, {0, 1, 2});
    rule.adapt_lower_bound = rule.bias_correction = false;
    compare(rule, gs::none{}, there::momo, {0, 1, 2});

    gs::momo_adam adam{.beta1 = 0.75, .beta2 = 0.875, .epsilon = 1e-3, .lower_bound = 0.5};
    compare(adam, gs::none{}, there::optax_momo_adam, {0, 1, 2});
    adam.adapt_lower_bound = true;
    compare(adam, gs::none{}, there::optax_momo_adam_adapts, {0, 1, 2});
    compare(adam, gs::none{}, there::momo_adam_adapts, {0, 1, 2});
    adam.adapt_lower_bound = false;
    adam.decay = 0.25;
    compare(adam, gs::none{}, there::momo_adam, {0, 1, 2});
}

TEST_CASE("a step of a rule that computes its step size from the loss needs it", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::polyak_sgd{}, gs::constant{1});
    CHECK_THROWS_WITH(optimizer.next_step(), ContainsSubstring("step_options.loss: is missing"));
    CHECK_THROWS_WITH(optimizer.next_step({.loss = std::nan("")}),
                      ContainsSubstring("step_options.loss: nan is out of range; expected finite"));
    CHECK(optimizer.clock() == gs::clock{});
    std::vector<float> w{4}, g{2};
    optimizer.next_step({.loss = 1.0})(w, g);
    CHECK(w[0] == 3.5f);
    auto sgd = gs::make_updater<float>(gs::sgd{}, gs::constant{1});
    sgd.next_step({.loss = 1.0})(w, g); // it ignores the loss
    CHECK(w[0] == 1.5f);
}

TEMPLATE_TEST_CASE("a step of a model-wise rule is applied once", "[rules]", gs::prodigy, gs::dog, gs::dowg,
                   gs::dadapt_adam, gs::dadapt_sgd, gs::polyak_sgd, gs::momo, gs::momo_adam) {
    two_tensors model(gs::make_updater<double>(TestType{}, gs::constant{1}));
    model.train(2);
    model.set_gradient(2);
    auto const step = model.updater.next_step({.loss = 1.0});
    step(model.slices());
    auto const weights = model.w;
    gs::clock const clock = model.updater.clock();
    CHECK_THROWS_WITH(step(model.slices()), ContainsSubstring("step 3: its sums are settled"));
    auto const skipped = model.updater.next_step({.loss = 1.0});
    auto const next = model.updater.next_step({.loss = 1.0});
    CHECK_THROWS_AS(skipped(model.slices()), gs::sequence_error);
    CHECK(model.w == weights);
    CHECK(model.updater.clock().state == clock.state);
    next(model.slices());
    CHECK(model.w != weights);
    auto const stale = model.updater.next_step({.loss = 1.0});
    model.updater.seek(model.updater.clock());
    CHECK_THROWS_AS(stale(model.slices()), gs::sequence_error);
}

TEMPLATE_TEST_CASE("a gradient that is not finite does not reach the numbers in the clock", "[rules]", gs::prodigy,
                   gs::dog, gs::dowg, gs::dadapt_adam, gs::dadapt_sgd, gs::polyak_sgd, gs::momo, gs::momo_adam) {
    for (double const bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
        for (std::size_t const at : {std::size_t{0}, std::size_t{3}}) {
            two_tensors model(gs::make_updater<double>(TestType{}, gs::constant{1}));
            for (std::size_t t = 0; t < 6; ++t) {
                model.set_gradient(t);
                auto const before = model.updater.clock().state;
                if (t == at) model.g[1][4] = bad;
                model.updater.next_step({.loss = 1.0})(model.slices());
                auto const& after = model.updater.clock().state;
                if (t == at && t != 0) CHECK(after == before);
                CHECK(std::all_of(after.begin(), after.end(), [](double x) { return std::isfinite(x); }));
                if (t == at) model.w[1][4] = 0.5, model.g[1][4] = 0;
                if (t == at)
                    for (auto& slot : model.state[1]) slot[4] = 0.5;
                CHECK_NOTHROW(model.updater.seek(model.updater.clock()));
            }
            CHECK(model.w[0] != there::sequence(1, there::sizes[0])); // it moves
            CHECK(std::all_of(model.w[0].begin(), model.w[0].end(), [](double x) { return std::isfinite(x); }));
        }
}

TEST_CASE("the clock of a model-wise rule comes with its numbers", "[rules]") {
    auto optimizer = gs::make_updater<float>(gs::prodigy{}, gs::constant{1});
    CHECK_THROWS_WITH(optimizer.seek({.step = 3}), ContainsSubstring("the rule keeps d, d_max, r"));
    CHECK_NOTHROW(optimizer.seek({.step = 3, .state = {1e-6, 1e-6, -2}}));
    CHECK_THROWS_WITH(optimizer.seek({.step = 3, .state = {1e-6, 1e-6, std::nan("")}}),
                      ContainsSubstring("clock.state: r: nan is out of range"));
}
