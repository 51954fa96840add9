// What went wrong in other systems, one test for each: what they did is in the name, or beside it.
#include <support/catch.hpp>

#include <gradstep/averaging/averaged.hpp>
#include <gradstep/gradstep.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace gs = gradstep;

namespace {

using numbers = std::vector<double>;

Approx about(double x) { return Approx(x).epsilon(1e-14); }

// Every rule that works element by element, with a state that its defaults have.
constexpr auto elementwise = [] {
    return std::tuple{gs::sgd{},
                      gs::add_delta{},
                      gs::momentum{},
                      gs::nesterov{},
                      gs::adagrad{},
                      gs::two_buffer_adagrad{.period = 2},
                      gs::decayed_adagrad{},
                      gs::proximal_adagrad{},
                      gs::adadelta{},
                      gs::rmsprop{},
                      gs::centered_rmsprop{},
                      gs::momentum_rmsprop{},
                      gs::centered_momentum_rmsprop{},
                      gs::adam{},
                      gs::amsgrad{},
                      gs::nesterov_adam{},
                      gs::nadam{},
                      gs::radam{},
                      gs::adamax{},
                      gs::adabelief{},
                      gs::yogi{},
                      gs::lion{},
                      gs::adan{},
                      gs::laprop{},
                      gs::ademamix{},
                      gs::adopt{},
                      gs::qhm{},
                      gs::qhadam{},
                      gs::ftrl{},
                      gs::constant_rate_ftrl{}};
};
template <class F> void for_each_rule(F const& f) {
    std::apply([&](auto const&... rule) { (f(rule), ...); }, elementwise());
}
// The rules that those systems have; test/properties holds every rule to the same, on all elements
// and backends.
template <class F> void for_rules_of_peers(F const& f) {
    f(gs::sgd{});
    f(gs::adagrad{});
    f(gs::adam{});
    f(gs::lion{});
}

template <class S> double widened(S x) {
    if constexpr (sizeof(S) == 2) return static_cast<double>(static_cast<float>(x));
    else return static_cast<double>(x);
}
template <class S> S stored(double x) {
    if constexpr (std::is_same_v<S, double>) return x;
    else return S(static_cast<float>(x));
}
template <class S> bool same_bits(S const& a, S const& b) { return std::memcmp(&a, &b, sizeof(S)) == 0; }

// A parameter with gradient and state; the buffers begin `offset` elements into their memory.
template <class Updater> class tensor {
public:
    using storage = typename Updater::traits::storage;
    using state_type = typename Updater::traits::state;

    Updater optimizer;
    std::size_t offset, size;
    std::vector<storage> weight, gradient;
    std::array<std::vector<state_type>, Updater::slots> state;

    tensor(Updater const& updater, std::size_t n, double w, std::size_t first = 0)
        : optimizer(updater), offset(first), size(n), weight(n + first, stored<storage>(w)), gradient(n + first) {
        for (auto& slot : state) slot.resize(n + first);
        call([&](auto w_, auto, auto... s) { optimizer.initialize(w_, s...); });
    }
    void take(gs::step_options const& options = {}) {
        auto const step = optimizer.next_step(options);
        call([&](auto w, auto g, auto... s) { step(w, g, s...); });
    }
    void take(double g, gs::step_options const& options = {}) {
        std::ranges::fill(gradient, stored<storage>(g));
        take(options);
    }
    storage const& at(std::size_t i) const { return weight[offset + i]; }
    double value(std::size_t i = 0) const { return widened(at(i)); }

private:
    template <class F> void call(F const& f) {
        auto const part = [&](auto& buffer) { return std::span(buffer).subspan(offset, size); };
        std::apply([&](auto&... s) { f(part(weight), part(gradient), part(s)...); }, state);
    }
};

template <class Element, class Backend = gs::serial_backend, class Rule>
auto make(Rule const& rule, Backend backend = {}) {
    return gs::make_updater<Element>(rule, gs::external{}, backend);
}

} // namespace

TEST_CASE("adagrad with a decay goes downhill, and the decay pulls (Paddle C adds the step; DeepSpeed leaves the decay "
          "out of it)",
          "[defects]") {
    auto const optimizer = gs::make_updater<double>(gs::adagrad{.epsilon = 0}, gs::l2{0.25}, gs::constant{0.5});
    tensor down(optimizer, 1, 2.0), up(optimizer, 1, -2.0);
    down.take(1.0);
    CHECK(down.state[0][0] == 2.25); // of the gradient with the decay: (1 + 0.25 * 2)^2
    CHECK(down.value() == about(1.5));
    up.take(-1.0);
    CHECK(up.value() == about(-1.5));

    tensor idle(optimizer, 1, 2.0);
    idle.take(0.0);
    CHECK(idle.value() == about(1.5));
}

TEST_CASE("no rule and no regularizer writes to the gradient (DeepSpeed's scalar Adagrad does)", "[defects]") {
    for_rules_of_peers([](auto const& rule) {
        CAPTURE(gs::describe(rule));
        tensor x(gs::make_updater<float>(rule, gs::l2{0.25}, gs::external{}, gs::simd_backend{}), 35, 2.0);
        x.take(0.5, {.gradient_scale = 0.25, .rate = 0.1});
        CHECK(std::ranges::all_of(x.gradient, [](float g) { return g == 0.5f; }));
        x.take(0.5, {.zero_gradient = true, .rate = 0.1});
        CHECK(std::ranges::all_of(x.gradient, [](float g) { return g == 0; }));
    });
}

TEST_CASE("a double is a double (Paddle C declares six types and computes in float)", "[defects]") {
    tensor x(make<double>(gs::sgd{}), 1, 1.0);
    x.take(0x1p-40, {.rate = 1});
    CHECK(x.value() == 1 - 0x1p-40);
}

TEST_CASE("l1 and l2 act in every step, in turn (Paddle v1 composes the steps of both at once)", "[defects]") {
    gs::proximal const penalty{gs::elastic_net{.l1 = 0.5, .l2 = 2}}; // at a rate of 0.5:  w <- (w - 0.25) / 2
    tensor x(gs::make_updater<double>(gs::sgd{}, penalty, gs::constant{0.5}), 1, 8.0);
    for (double const expected : {3.875, 1.8125, 0.78125}) {
        x.take(0.0);
        CHECK(x.value() == expected);
    }
}

TEST_CASE("decays multiply, each with the rate of its step (Paddle v1 adds them up, with the rate of the last)",
          "[defects]") {
    tensor x(gs::make_updater<double>(gs::sgd{}, gs::decoupled{0.5}, gs::external{}), 1, 2.0);
    x.take(0.0, {.rate = 0.5});
    x.take(0.0, {.rate = 0.25});
    CHECK(x.value() == 2 * 0.75 * 0.875);
}

TEST_CASE("lion moves each weight by the rate, and none without gradient (DeepSpeed masks signs by -1.0; at 0 its CPU "
          "and its GPU move weights in opposite directions)",
          "[defects]") {
    auto const follow = [](auto backend) {
        tensor x(make<float>(gs::lion{}, backend), 40, 0.0);
        for (std::size_t i = 0; i < x.size; ++i)
            x.gradient[i] = std::ldexp(i % 2 == 0 ? 1.5f : -1.5f, static_cast<int>(i) * 5 - 100);
        x.gradient[7] = 0.0f, x.gradient[39] = -0.0f;
        x.take({.rate = 0.25});
        for (std::size_t i = 0; i < x.size; ++i)
            CHECK(x.value(i) == (i == 7 || i == 39 ? 0 : i % 2 == 0 ? -0.25 : 0.25));
    };
    follow(gs::serial_backend{});
    follow(gs::simd_backend{});
}

TEST_CASE("16-bit tensors may begin anywhere (DeepSpeed stores them by aligned instructions)", "[defects]") {
    auto const follow = [](auto element, auto const& rule) {
        using type = decltype(element);
        auto const trained = [&](std::size_t offset, std::size_t n) {
            tensor x(make<type>(rule, gs::simd_backend{}), n, 0.5, offset);
            for (double const g : {0.25, -1.5}) x.take(g, {.rate = 0.1});
            return x;
        };
        auto const expected = trained(0, 71);
        for (std::size_t offset = 0; offset < 33; ++offset) {
            auto const x = trained(offset, 71 - offset);
            for (std::size_t i = 0; i < x.size; ++i) REQUIRE(same_bits(x.at(i), expected.at(i)));
        }
    };
    for_rules_of_peers([&](auto const& rule) {
        CAPTURE(gs::describe(rule));
        follow(gs::bfloat16{}, rule);
        follow(gs::mixed<gs::bfloat16>{}, rule);
    });
    follow(gs::float16{}, gs::adam{});
    follow(gs::mixed<gs::float16>{}, gs::adam{});
}

TEST_CASE("l1 draws weights of ftrl towards 0 from both sides (Monolith takes the sign bit for the sign)",
          "[defects]") {
    auto const stepped = [](auto rule, double g) {
        tensor x(make<double>(rule), 1, 0.0);
        x.take(g, {.rate = 0.5});
        return x.value();
    };
    auto const check = [&](auto plain, auto shrinking) {
        for (double const g : {3.0, -3.0}) {
            double const w = stepped(shrinking, g);
            CHECK(w * g < 0);
            CHECK(std::abs(w) == about(std::abs(stepped(plain, g)) * 2 / 3)); // |z| - l1 = 2 of 3
        }
        CHECK(stepped(shrinking, 0.5) == 0);
        CHECK(stepped(shrinking, -0.5) == 0);
    };
    check(gs::ftrl{}, gs::ftrl{.l1 = 1});
    check(gs::constant_rate_ftrl{}, gs::constant_rate_ftrl{.l1 = 1});
}

TEST_CASE("ftrl adds nothing to its l1 and l2 (Paddle adds 1e-10)", "[defects]") {
    auto const check = [](auto const& rule) {
        tensor x(make<double>(rule), 1, 0.0);
        x.take(0x1p-40, {.rate = 1});
        CHECK(x.value() == about(-0x1p-40 / (1 + 0x1p-40)));
    };
    check(gs::ftrl{});
    check(gs::constant_rate_ftrl{});
}

TEST_CASE("the bias corrections come back with the clock (Monolith restores beta1's power from beta2's)", "[defects]") {
    auto const check = [](auto const& rule) {
        CAPTURE(gs::describe(rule));
        tensor x(make<double>(rule), 1, 0.5);
        for (double const g : {1.0, -0.5, 0.25, 2.0}) x.take(g, {.rate = 0.1});
        auto const clock = x.optimizer.clock();

        tensor y(make<double>(rule), 1, 0.0);
        y.weight = x.weight, y.state = x.state;
        y.optimizer.seek(clock);
        for (double const g : {-1.0, 0.125}) {
            x.take(g, {.rate = 0.1});
            y.take(g, {.rate = 0.1});
            CHECK(same_bits(x.at(0), y.at(0)));
            CHECK(x.state == y.state);
        }
    };
    for_each_rule(check);
    check(gs::adam{.beta1 = 0.25, .beta2 = 0.75});
    check(gs::nadam{.beta1 = 0.25, .beta2 = 0.75, .momentum_decay = 1});
}

TEST_CASE("an initial accumulator is a number in every element (HugeCTR fills bytes: 0.1 becomes 0, 1 becomes 2e-38)",
          "[defects]") {
    auto const check = [](auto const& rule, std::size_t slot) {
        CAPTURE(gs::describe(rule));
        auto const filled = [&](auto element) {
            tensor const x(make<decltype(element)>(rule, gs::simd_backend{}), 70, 1.0);
            using value = typename std::remove_cvref_t<decltype(x)>::state_type;
            value const expected = static_cast<value>(rule.initial_accumulator);
            return std::ranges::all_of(x.state[slot], [&](value s) { return s == expected; });
        };
        CHECK(filled(float{}));
        CHECK(filled(double{}));
        CHECK(filled(gs::bfloat16{}));
        CHECK(filled(gs::mixed<gs::bfloat16>{}));
    };
    for (double const start : {0.1, 1.0}) {
        check(gs::adagrad{.initial_accumulator = start}, 0);
        check(gs::two_buffer_adagrad{.initial_accumulator = start}, 1);
        check(gs::proximal_adagrad{.initial_accumulator = start}, 0);
        check(gs::rmsprop{.initial_accumulator = start}, 0);
        check(gs::centered_rmsprop{.initial_accumulator = start}, 0);
        check(gs::momentum_rmsprop{.initial_accumulator = start}, 0);
        check(gs::centered_momentum_rmsprop{.initial_accumulator = start}, 0);
        check(gs::yogi{.initial_accumulator = start}, 0);
        check(gs::yogi{.initial_accumulator = start}, 1);
        check(gs::ftrl{.initial_accumulator = start}, 1);
        check(gs::constant_rate_ftrl{.initial_accumulator = start}, 1);
    }
}

TEST_CASE("steps are told apart where a float cannot (FBGEMM, torch's fused kernels and others count in float)",
          "[defects]") {
    // beta2^t is far from 0 and from 1, and changes from step to step. In the first step from state
    // 0 only 1 - beta2^t is left of it: w = -g / sqrt((1 - beta2) * g^2 / (1 - beta2^t)).
    constexpr double gap = 0x1p-30;
    gs::adam const slow{.beta1 = 0, .beta2 = 1 - gap, .epsilon = 0};
    for (std::int64_t const before : {std::int64_t{1} << 24, std::int64_t{1} << 31}) {
        double last = 0;
        for (std::int64_t const t : {before, before + 1, before + 2}) {
            tensor x(make<double>(slow), 1, 0.0);
            x.optimizer.seek({.step = t - 1});
            x.take(1.0, {.rate = 1});
            double const power = std::expm1(static_cast<double>(t) * std::log1p(-gap));
            // The power is good to an ulp, which 1 - beta2^t makes up to 64 of; 8 more for all
            // else.
            CHECK(x.value() == Approx(-std::sqrt(-power / gap)).epsilon(72 * 0x1p-52));
            CHECK(x.value() != last);
            last = x.value();
        }
    }
}

TEST_CASE("steps are counted beside 16-bit elements too, which could not hold their number", "[defects]") {
    auto const check = [](auto element, std::int64_t t) {
        tensor x(make<decltype(element)>(gs::adam{.beta1 = 0, .epsilon = 0}), 1, 0.0);
        x.optimizer.seek({.step = t - 1});
        x.take(1.0, {.rate = 1.0 / 64});
        double const expected = -std::sqrt((1 - std::pow(0.999, static_cast<double>(t))) / 0.001) / 64;
        CHECK(x.value() == Approx(expected).epsilon(0x1p-7)); // an ulp of bfloat16; of 256 or 2048 it is 7 % away
    };
    check(gs::bfloat16{}, 300);
    check(gs::float16{}, 4096);
    check(gs::mixed<gs::bfloat16>{}, 300);
}

TEST_CASE("powers of beta are taken in double (ensmallen takes them in the element's type)", "[defects]") {
    // In float 1 - beta2 is 1.19e-7.
    tensor x(make<float>(gs::adam{.beta1 = 0, .beta2 = 1 - 1e-7, .epsilon = 0}), 1, 0.0);
    x.take(3.0, {.rate = 1});
    CHECK(x.value() == Approx(-1).epsilon(4 * 0x1p-23));
}

TEST_CASE("all tensors of a step have the same bias corrections (a power multiplied up at each call has not)",
          "[defects]") {
    auto optimizer = make<float>(gs::adam{});
    std::vector<float> w{1}, g{0.5f}, m{0}, v{0}, w2 = w, m2 = m, v2 = v;
    auto const step = optimizer.next_step({.rate = 0.1});
    step(w, g, m, v);
    step(w2, g, m2, v2);
    CHECK(same_bits(w[0], w2[0]));
    CHECK(optimizer.clock().step == 1);
}

TEST_CASE("the decay comes first, is scaled by the plain rate, and is the same on every backend (bitsandbytes decays "
          "last on CUDA alone; Paddle C scales by the bias-corrected rate)",
          "[defects]") {
    auto const stepped = [](auto backend) {
        gs::adam const rule{.epsilon = 0};
        tensor x(gs::make_updater<double>(rule, gs::decoupled{0.5}, gs::constant{0.5}, backend), 35, 2.0);
        x.take(3.0);
        return x.weight;
    };
    auto const serial = stepped(gs::serial_backend{});
    CHECK(serial[0] == about(2 * 0.75 - 0.5)); // last it would be (2 - 0.5) * 0.75
    CHECK(serial == stepped(gs::simd_backend{}));

    tensor idle(gs::make_updater<double>(gs::adam{}, gs::decoupled{0.5}, gs::constant{0.5}), 1, 2.0);
    idle.take(0.0);
    CHECK(idle.value() == 1.5);
}

TEST_CASE("nothing skips a NaN, in any type (bitsandbytes' 8-bit kernels do, its 32-bit ones do not)", "[defects]") {
    for_rules_of_peers([](auto const& rule) {
        CAPTURE(gs::describe(rule));
        auto const check = [&](auto element) {
            for (std::size_t const bad : {0u, 8u, 33u}) {
                tensor x(make<decltype(element)>(rule, gs::simd_backend{}), 35, 0.5);
                x.take(0.25, {.rate = 0.1});
                std::ranges::fill(x.gradient, stored<typename decltype(x)::storage>(0.5));
                x.gradient[bad] = stored<typename decltype(x)::storage>(NAN);
                x.take({.rate = 0.1});
                for (std::size_t i = 0; i < x.size; ++i) CHECK(std::isnan(x.value(i)) == (i == bad));
            }
        };
        check(float{});
        check(gs::bfloat16{});
        check(gs::float16{});
        check(gs::mixed<gs::bfloat16>{});
    });
}

TEST_CASE("an element's place in the tensor says nothing (PERSIA and Vowpal Wabbit estimate roots in the vector body, "
          "and take them exactly in the tail)",
          "[defects]") {
    for_rules_of_peers([](auto const& rule) {
        CAPTURE(gs::describe(rule));
        auto const check = [&](auto element) {
            auto const train = [](auto& x) {
                for (double const g : {0.3, -1.7, 0.01}) x.take(g, {.rate = 0.1});
            };
            tensor one(make<decltype(element)>(rule), 1, 0.7);
            train(one);
            for (std::size_t const n : {1u, 7u, 8u, 9u, 35u}) {
                tensor x(make<decltype(element)>(rule, gs::simd_backend{}), n, 0.7);
                train(x);
                for (std::size_t i = 0; i < n; ++i) CHECK(same_bits(x.at(i), one.at(0)));
            }
        };
        check(float{});
        check(double{});
        check(gs::bfloat16{});
    });
}

TEST_CASE("the state of 16-bit weights is float (torch's state dicts cast it to the type of the parameter)",
          "[defects]") {
    auto const check = [](auto element) {
        tensor x(make<decltype(element)>(gs::adam{}), 1, 1.0);
        static_assert(std::is_same_v<typename decltype(x)::state_type, float>);
        for (int k = 0; k < 1000; ++k) x.take(1.0, {.rate = 0});
        // With 8 bits v would stop at 0.25, where 0.001 is less than half a step. Here it rounds 4
        // times a step.
        CHECK(x.state[1][0] == Approx(1 - std::pow(0.999, 1000)).epsilon(4 * 1000 * 0x1p-24));
    };
    check(gs::bfloat16{});
    check(gs::float16{});
    check(gs::mixed<gs::bfloat16>{});
}

TEST_CASE("epsilon stands where the rule says (systems have four places for adam's, and few say which)", "[defects]") {
    // At the first step the root is |g| after the correction, and sqrt(0.001) * |g| before it.
    auto const stepped = [](gs::adam const& rule) {
        tensor x(make<double>(rule), 1, 0.0);
        x.take(1e-8, {.rate = 1});
        return -x.value();
    };
    auto const close = [](double x) { return Approx(x).epsilon(1e-12); }; // 1 - 0.999 has 13 digits
    CHECK(stepped({}) == close(0.5));
    CHECK(stepped({.epsilon_place = gs::epsilon::outside}) == close(0.5));
    CHECK(stepped({.epsilon_place = gs::epsilon::hat}) == close(1 / (1 + 1 / std::sqrt(0.001))));
    CHECK(stepped({.epsilon_place = gs::epsilon::inside}) == close(1e-8 / std::sqrt(1e-16 + 1e-8)));
}

TEST_CASE("a variance that cancels is 0 and not negative (torch's centered RMSProp takes the root of what is left)",
          "[defects]") {
    auto const check = [](auto const& rule, float size) {
        tensor x(make<float>(rule, gs::simd_backend{}), 35, 1.0);
        for (int k = 0; k < 5000; ++k) {
            for (std::size_t i = 0; i < x.size; ++i) x.gradient[i] = size * (1 + static_cast<float>(i) / 64);
            x.take({.rate = 1e-12});
        }
        CHECK(std::ranges::all_of(x.weight, [](float w) { return std::isfinite(w); }));
    };
    for (float const size : {1.0f, 1e3f, 1e-3f}) {
        check(gs::centered_rmsprop{}, size);
        check(gs::centered_rmsprop{.rho = 0.5}, size);
        check(gs::centered_momentum_rmsprop{}, size);
        check(gs::centered_momentum_rmsprop{.rho = 0, .epsilon_place = gs::epsilon::inside}, size);
    }
}

TEST_CASE("without epsilon and gradient nothing is 0 / 0 (Paddle v1's Adamax, TensorFlow's first Adagrad)",
          "[defects]") {
    auto const check = [](auto rule) {
        CAPTURE(gs::describe(rule));
        rule.epsilon = 0;
        tensor x(make<float>(rule, gs::simd_backend{}), 35, 0.5);
        for (int k = 0; k < 3; ++k) x.take(0.0, {.rate = 10});
        CHECK(std::ranges::all_of(x.weight, [](float w) { return w == 0.5f; }));
    };
    check(gs::adagrad{});
    check(gs::adagrad{.epsilon_place = gs::epsilon::inside});
    check(gs::two_buffer_adagrad{});
    check(gs::decayed_adagrad{});
    check(gs::adadelta{});
    check(gs::rmsprop{});
    check(gs::rmsprop{.epsilon_place = gs::epsilon::inside});
    check(gs::centered_rmsprop{});
    check(gs::momentum_rmsprop{});
    check(gs::centered_momentum_rmsprop{});
    check(gs::adam{});
    check(gs::adam{.epsilon_place = gs::epsilon::inside});
    check(gs::adam{.epsilon_place = gs::epsilon::hat});
    check(gs::amsgrad{});
    check(gs::nesterov_adam{});
    check(gs::nadam{});
    check(gs::radam{});
    check(gs::adamax{});
    check(gs::adamax{.epsilon_place = gs::epsilon::inside});
    check(gs::adamax{.epsilon_place = gs::epsilon::accumulated});
    check(gs::adabelief{.epsilon_root = 0});
    check(gs::yogi{.initial_accumulator = 0});
    check(gs::adan{});
    check(gs::laprop{});
    check(gs::ademamix{});
    check(gs::adopt{});
    check(gs::qhadam{.nu2 = 0.5});
}

TEST_CASE("a decay pulls without momentum, too (Paddle C's Nesterov loses it)", "[defects]") {
    auto const check = [](auto const& rule) {
        CAPTURE(gs::describe(rule));
        tensor x(gs::make_updater<double>(rule, gs::l2{0.5}, gs::constant{0.5}), 1, 2.0);
        x.take(0.0);
        CHECK(x.value() == 1.5);
    };
    check(gs::nesterov{.mu = 0});
    check(gs::nesterov{.mu = 0, .rate_place = gs::learning_rate::inside});
    check(gs::momentum{.mu = 0});
    check(gs::momentum{.mu = 0, .rate_place = gs::learning_rate::inside});
}

TEST_CASE("adadelta moves by its rate (Paddle's fluid operator ignores it)", "[defects]") {
    auto const stepped = [](double rate) {
        tensor x(make<double>(gs::adadelta{}), 1, 0.0);
        x.take(0.5, {.rate = rate});
        return x.value();
    };
    CHECK(stepped(0.5) < 0);
    CHECK(stepped(1) == 2 * stepped(0.5));
}

TEST_CASE("the first gradient enters a moving mean like every other (Paddle v1's RMSProp takes all of it)",
          "[defects]") {
    auto const check = [](auto rule) {
        CAPTURE(gs::describe(rule));
        rule.rho = 0.75;
        tensor x(make<double>(rule), 1, 1.0);
        x.take(4.0, {.rate = 0.5});
        CHECK(x.state[0][0] == 4);
    };
    check(gs::decayed_adagrad{});
    check(gs::adadelta{});
    check(gs::rmsprop{});
    check(gs::centered_rmsprop{});
    check(gs::momentum_rmsprop{});
    check(gs::centered_momentum_rmsprop{});
}

TEST_CASE("the first step of momentum is the gradient, dampened or not (a buffer that starts at (1 - dampening) * g is "
          "not torch's)",
          "[defects]") {
    auto const check = [](auto const& rule) {
        tensor x(make<double>(rule), 1, 1.0);
        x.take(4.0, {.rate = 0.5});
        CHECK(x.state[0][0] == 4);
    };
    check(gs::momentum{.dampening = 0.75});
    check(gs::nesterov{.dampening = 0.75});
}

TEST_CASE("two steps are not one of twice the rate along their mean, where a rule remembers", "[defects]") {
    for_each_rule([](auto const& rule) {
        using rule_type = std::remove_cvref_t<decltype(rule)>;
        constexpr bool linear = gs::slot_count<rule_type> == 0, by_sign = std::is_same_v<rule_type, gs::lion>;
        CAPTURE(gs::describe(rule));
        tensor two(make<double>(rule), 1, 2.0), one(make<double>(rule), 1, 2.0);
        two.take(1.0, {.rate = 0.125});
        two.take(0.25, {.rate = 0.125});
        one.take(0.625, {.rate = 0.25});
        CHECK((two.value() == one.value()) == (linear || by_sign));
        CHECK((two.state == one.state) == linear);
    });
}

TEST_CASE("nadam's product of momenta is a pure function of the step (a running product in float is neither kept by "
          "checkpoints nor exact)",
          "[defects]") {
    constexpr long double u = 0x1p-53L, u_reference = 0x1p-64L;
    for (double const decay : {0.0, 0.004, 1.0}) {
        for (double const beta1 : {0.9, 1 - 0x1p-20}) {
            gs::nadam const rule{.beta1 = beta1, .momentum_decay = decay};
            CAPTURE(decay, beta1);
            long double product = 1, log_of_rest = 0;
            int compared = 0;
            for (std::int64_t t = 1; t <= 1'000'000; ++t) {
                auto const x = static_cast<long double>(t);
                long double const rest =
                    1 - 0.5L * std::pow(static_cast<long double>(0.96), static_cast<long double>(decay) * x);
                product *= beta1 * rest;
                log_of_rest += std::log(rest);
                if (t > 2000 && t % 997 != 0 && t != 1'000'000) continue;
                if (product < 0x1p-1000L) { // where nothing is left, 1 - product is 1
                    CHECK(rule.momentum_product(static_cast<double>(t)) < 0x1p-999);
                    continue;
                }
                // As the oracle of nadam counts it; and here up to 5 roundings of long double a
                // step.
                long double const from_beta = 3 * x * -std::log(static_cast<long double>(beta1));
                long double const bound =
                    u * (from_beta + 75 * -log_of_rest - std::log(product) + 2) + u_reference * 5 * x;
                auto const found = static_cast<long double>(rule.momentum_product(static_cast<double>(t)));
                ++compared;
                if (std::abs(found - product) <= 1.01L * bound * product) continue;
                CAPTURE(t, product, found);
                FAIL_CHECK("off by more than its roundings");
                break;
            }
            CHECK(compared >= 500);
        }
    }
}

TEST_CASE("nadam goes on from any step as if it had been there", "[defects]") {
    gs::nadam const rule{.beta1 = 0.99, .momentum_decay = 1};
    tensor x(make<double>(rule), 1, 0.5);
    for (int k = 0; k < 300; ++k) x.take(k % 3 - 0.5, {.rate = 0.01});
    tensor y(make<double>(rule), 1, 0.0);
    y.weight = x.weight, y.state = x.state;
    y.optimizer.seek({.step = 300});
    x.take(1.0, {.rate = 0.01});
    y.take(1.0, {.rate = 0.01});
    CHECK(same_bits(x.at(0), y.at(0)));
}
