#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <gradstep/c/paddle_optimizer.h>

#include "paddle_optimizer/wire.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"

namespace {

using wire::message;

enum kind { SGD = 1, Adadelta = 2, Adagrad = 3, Adam = 4 };

// An OptimizerConfig, and what PaddlePaddle made of its numbers.
struct config {
    kind optimizer = SGD;
    double momentum = 0, decay = 0, rho = 0.9, epsilon = 1e-5, beta1 = 0.9, beta2 = 0.99;
    bool nesterov = false;
    double rate = 0.01, a = 0, b = 0;
    bool linear = false;
    double clip_norm = 0, clip_value = 0;

    std::string bytes() const {
        message all;
        all.integer(1, optimizer);
        switch (optimizer) {
        case SGD:
            all.inside(3, message{}.number(21, momentum).number(23, decay).integer(24, nesterov));
            break;
        case Adadelta:
            all.inside(4, message{}.number(31, epsilon).number(32, decay).number(33, rho));
            break;
        case Adagrad:
            all.inside(5, message{}.number(41, epsilon).number(42, decay));
            break;
        case Adam:
            all.inside(6, message{}.number(41, beta1).number(42, beta2).number(43, epsilon).number(44, decay));
            break;
        }
        all.integer(11, linear);
        if (linear) all.inside(13, message{}.number(1, rate).number(2, a).number(3, b));
        else all.inside(12, message{}.number(1, rate));
        if (clip_norm != 0) all.number(101, clip_norm);
        if (clip_value != 0) all.number(102, clip_value);
        return all.bytes();
    }
};

// One weight under the formulas of PaddlePaddle's sgd_, adadelta_, adagrad_ and adam_optimizer.cc
// and lr_policy.h, in double; but adagrad descends, and nesterov decays the weight as it decays
// without.
struct oracle {
    config with;
    double w, s = 0, s2 = 0;
    int t = 0;

    void update(double g) {
        t += 1;
        double lr = with.linear ? std::max(with.rate - with.a * t, with.b) : with.rate;
        switch (with.optimizer) {
        case SGD: {
            double const pull = g + with.decay * w;
            s = with.momentum * s - lr * pull;
            w += with.nesterov ? with.momentum * s - lr * pull : s;
            break;
        }
        case Adadelta: {
            s = with.rho * s + (1 - with.rho) * g * g;
            double const d = std::sqrt(s2 + with.epsilon) / std::sqrt(s + with.epsilon) * g;
            s2 = with.rho * s2 + (1 - with.rho) * d * d;
            w -= lr * d + lr * with.decay * w;
            break;
        }
        case Adagrad:
            s += g * g;
            w -= lr * g / std::sqrt(s + with.epsilon) + lr * with.decay * w;
            break;
        case Adam:
            lr *= std::sqrt(1 - std::pow(with.beta2, t)) / (1 - std::pow(with.beta1, t));
            s = with.beta1 * s + (1 - with.beta1) * g;
            s2 = with.beta2 * s2 + (1 - with.beta2) * g * g;
            w -= lr * (s / std::sqrt(s2 + with.epsilon) + with.decay * w);
            break;
        }
    }
};

template <class T>
constexpr paddle_element_type element = sizeof(T) == 4 ? PADDLE_ELEMENT_TYPE_FLOAT32 : PADDLE_ELEMENT_TYPE_FLOAT64;

struct release {
    void operator()(paddle_optimizer* o) const { paddle_release_optimizer(o); }
};
using optimizer = std::unique_ptr<paddle_optimizer, release>;

unsigned char const* unsigned_bytes(std::string const& x) { return reinterpret_cast<unsigned char const*>(x.data()); }

// As a server does: values go into memory from malloc, which the optimizer takes.
template <class T>
optimizer create(std::string const& config_bytes, std::vector<T> const& values, std::string const& state = {}) {
    std::size_t const bytes = values.size() * sizeof(T);
    void* const buffer = std::malloc(bytes);
    std::memcpy(buffer, values.data(), bytes);
    optimizer o{paddle_create_optimizer(unsigned_bytes(config_bytes), static_cast<int>(config_bytes.size()), element<T>,
                                        buffer, static_cast<int>(bytes), state.empty() ? nullptr : state.data(),
                                        static_cast<int>(state.size()))};
    if (!o) std::free(buffer);
    return o;
}

template <class T> int update(optimizer const& o, std::vector<T> const& g) {
    return paddle_update_parameter(o.get(), element<T>, g.data(), static_cast<int>(g.size() * sizeof(T)));
}

template <class T> std::vector<T> weights(optimizer const& o) {
    void* buffer = nullptr;
    int const count = paddle_optimizer_get_weights(o.get(), &buffer);
    REQUIRE(count >= 0);
    auto const* const first = static_cast<T const*>(buffer);
    return {first, first + count};
}

std::string state_of(optimizer const& o) {
    char const* state = nullptr;
    int const bytes = paddle_optimizer_get_state(o.get(), &state);
    REQUIRE(bytes > 0);
    std::string const all(state, static_cast<std::size_t>(bytes));
    std::free(const_cast<char*>(state));
    return all;
}

constexpr std::size_t count = 37; // packs of every instruction set, and a rest
constexpr int steps = 20;

// Weights around 6, and gradients that keep their sign and are exact in float: nothing cancels, so
// that errors stay relative.
template <class T> std::vector<T> start() {
    std::vector<T> w(count);
    for (std::size_t i = 0; i < count; ++i) w[i] = T(5 + static_cast<double>(i) / 16);
    return w;
}
template <class T> std::vector<T> gradient(int t) {
    std::vector<T> g(count);
    for (std::size_t i = 0; i < count; ++i)
        g[i] = T(0.5 + static_cast<double>((i * 7 + static_cast<std::size_t>(t) * 5) % 32) / 64);
    return g;
}

// The expected weights, and how far rounding may move them. In units in the last place, the step
// number t of adadelta, the rule with the longest chain, is off by at most t^2 + 8.5 t + 4 of
// itself. n_t is off by 4 t after t steps of two products, an addition and rounded coefficients,
// with half a unit or less each. u_t has the errors of u_{t-1}, n_t and d^2 and 11 more, which add
// up to 2 t^2 + 13 t. d has half of both, and 4. For adam it is 5 t + 6, for the others less.
// Rounding and decay of the weight are three roundings a step; decays are part of the move. The
// oracle has such errors too, in double.
struct expected {
    std::vector<double> w, error;

    template <class T>
    static expected after(config const& with, std::vector<T> const& from, std::vector<std::vector<T>> const& g) {
        expected all;
        double const unit = 2 * static_cast<double>(std::numeric_limits<T>::epsilon());
        for (std::size_t i = 0; i < from.size(); ++i) {
            oracle one{with, static_cast<double>(from[i])};
            double error = 0;
            for (std::size_t t = 1; t <= g.size(); ++t) {
                double const before = one.w, n = static_cast<double>(t);
                one.update(static_cast<double>(g[t - 1][i]));
                error += unit * ((n * n + 9 * n + 8) * std::abs(one.w - before) + 3 * std::abs(one.w));
            }
            all.w.push_back(one.w);
            all.error.push_back(error);
        }
        return all;
    }

    template <class T> void check(std::vector<T> const& got) const {
        REQUIRE(got.size() == w.size());
        for (std::size_t i = 0; i < w.size(); ++i) {
            INFO("element " << i << ": " << got[i] << ", expected " << w[i] << ", may be off by " << error[i]);
            CHECK(std::abs(static_cast<double>(got[i]) - w[i]) <= error[i]);
        }
    }
};

template <class T> std::vector<std::vector<T>> gradients(int n = steps) {
    std::vector<std::vector<T>> all;
    for (int t = 1; t <= n; ++t) all.push_back(gradient<T>(t));
    return all;
}

template <class T> void check_against_oracle(config const& with) {
    auto const g = gradients<T>();
    auto const o = create(with.bytes(), start<T>());
    REQUIRE(o);
    for (auto const& one : g) REQUIRE(update(o, one) == PADDLE_SUCCESS);
    expected::after(with, start<T>(), g).check(weights<T>(o));
}

std::vector<config> every_optimizer() {
    return {{.optimizer = SGD},
            {.optimizer = SGD, .decay = 0.1},
            {.optimizer = SGD, .momentum = 0.75},
            {.optimizer = SGD, .momentum = 0.75, .decay = 0.1},
            {.optimizer = SGD, .momentum = 0.75, .nesterov = true},
            {.optimizer = Adadelta, .rate = 1},
            {.optimizer = Adadelta, .decay = 0.01, .rho = 0.95, .epsilon = 1e-3, .rate = 1},
            {.optimizer = Adagrad, .rate = 0.1},
            {.optimizer = Adagrad, .decay = 0.1, .epsilon = 0.25, .rate = 0.1},
            {.optimizer = Adam},
            {.optimizer = Adam, .decay = 0.1, .epsilon = 0.125, .beta2 = 0.9}};
}

std::vector<config> every_optimizer_and_policy() {
    auto all = every_optimizer();
    for (auto with : every_optimizer()) {
        with.linear = true;
        with.a = with.rate / 16; // the floor is reached after 12 of the steps
        with.b = with.rate / 4;
        all.push_back(with);
    }
    return all;
}

} // namespace

TEMPLATE_TEST_CASE("every optimizer under both policies does what PaddlePaddle's formulas say", "", float, double) {
    for (config const& with : every_optimizer_and_policy()) {
        INFO("optimizer " << with.optimizer << ", momentum " << with.momentum << ", decay " << with.decay << ", linear "
                          << with.linear);
        check_against_oracle<TestType>(with);
    }
}

TEMPLATE_TEST_CASE("a state goes on with the same bits, in the place of other values", "", float, double) {
    for (config const& with : every_optimizer_and_policy()) {
        INFO("optimizer " << with.optimizer << ", momentum " << with.momentum << ", linear " << with.linear);
        auto const whole = create(with.bytes(), start<TestType>());
        std::string state;
        std::vector<TestType> then;
        for (int t = 1; t <= steps; ++t) {
            if (t == 9) {
                state = state_of(whole);
                then = weights<TestType>(whole);
            }
            REQUIRE(update(whole, gradient<TestType>(t)) == PADDLE_SUCCESS);
        }
        auto const resumed = create(with.bytes(), std::vector<TestType>(count, TestType(300)), state);
        REQUIRE(resumed);
        CHECK(weights<TestType>(resumed) == then);
        CHECK(state_of(resumed) == state);
        for (int t = 9; t <= steps; ++t) REQUIRE(update(resumed, gradient<TestType>(t)) == PADDLE_SUCCESS);
        CHECK(weights<TestType>(resumed) == weights<TestType>(whole));
        CHECK(state_of(resumed) == state_of(whole));
    }
}

TEMPLATE_TEST_CASE("states keep every number, also those that are not finite", "", float, double) {
    using limits = std::numeric_limits<TestType>;
    std::vector<TestType> const values{TestType(0.1),        -TestType(0),        limits::min(),
                                       limits::denorm_min(), limits::max(),       limits::lowest(),
                                       limits::infinity(),   -limits::infinity(), TestType(1) / TestType(3),
                                       limits::epsilon(),    limits::quiet_NaN()};
    config const with;
    auto const o = create(with.bytes(), values);
    auto const resumed = create(with.bytes(), std::vector<TestType>(values.size()), state_of(o));
    REQUIRE(resumed);
    auto const got = weights<TestType>(resumed);
    REQUIRE(got.size() == values.size());
    CHECK(std::isnan(got.back()));
    CHECK(std::memcmp(got.data(), values.data(), (values.size() - 1) * sizeof(TestType)) == 0);
}

TEST_CASE("a state that PaddlePaddle wrote is restored, with its learning rate") {
    // An AdamOptimizerState after two updates, in the six digits of PaddlePaddle's streams.
    auto tensor = [](std::string const& x, std::string const& y) {
        return message{}.integer(1, 4).text(2, x).text(2, y);
    };
    std::string const state = message{}
                                  .inside(1, tensor("0.123457", "-2e-05"))
                                  .inside(2, tensor("0.25", "1.5"))
                                  .inside(3, tensor("0.0625", "2.25"))
                                  .inside(101, message{}.number(1, 0.5))
                                  .number(104, 2)
                                  .bytes();
    config const with{.optimizer = Adam, .rate = 0.01};
    auto const o = create(with.bytes(), std::vector<float>{7, 7}, state);
    REQUIRE(o);
    CHECK(weights<float>(o) == std::vector<float>{0.123457F, -2e-05F});

    std::vector<float> const g{0.5F, 1};
    REQUIRE(update(o, g) == PADDLE_SUCCESS);
    auto const got = weights<float>(o);
    std::vector<oracle> const two{{with, 0.123457, 0.25, 0.0625, 2}, {with, -2e-05, 1.5, 2.25, 2}};
    for (std::size_t i = 0; i < 2; ++i) {
        oracle one = two[i];
        one.with.rate = 0.5;
        double const before = one.w;
        one.update(static_cast<double>(g[i]));
        // `expected` with one step from exact averages; the weight before is off by half a unit
        double const unit = 2 * static_cast<double>(std::numeric_limits<float>::epsilon());
        CHECK(std::abs(static_cast<double>(got[i]) - one.w) <=
              unit * (18 * std::abs(one.w - before) + 3 * std::abs(one.w) + std::abs(before)));
    }
}

TEST_CASE("a state is a message that PaddlePaddle reads") {
    config const with{.optimizer = Adagrad, .rate = 0.5, .a = 0.25, .b = 0.125, .linear = true};
    auto const o = create(with.bytes(), std::vector<float>{1.5F, -0.25F});
    std::string const expected = message{}
                                     .inside(1, message{}.integer(1, 4).text(2, "1.5").text(2, "-0.25"))
                                     .inside(2, message{}.integer(1, 4).text(2, "0").text(2, "0"))
                                     .inside(101, message{}.number(1, 0.5).number(2, 0.25).number(3, 0.125))
                                     .number(104, 0)
                                     .bytes();
    CHECK(state_of(o) == expected);
}

TEST_CASE("regression: adagrad descends") {
    config const with{.optimizer = Adagrad, .rate = 0.5};
    auto const o = create(with.bytes(), std::vector<double>{4});
    for (int t = 0; t < 100; ++t) REQUIRE(update(o, weights<double>(o)) == PADDLE_SUCCESS); // of w^2 / 2
    double const w = weights<double>(o)[0];
    CHECK(w > 0);
    CHECK(w < 4 * 0.1);
}

TEST_CASE("regression: the element is not ignored") {
    config const with{.optimizer = SGD, .rate = 0.5};
    auto const o = create(with.bytes(), std::vector<double>{1, 2, 3});
    void* buffer = nullptr;
    CHECK(paddle_optimizer_get_weights(o.get(), &buffer) == 3); // of 24 bytes, not 6
    REQUIRE(update(o, std::vector<double>{2, 2, 2}) == PADDLE_SUCCESS);
    CHECK(weights<double>(o) == std::vector<double>{0, 1, 2});
    CHECK(update(o, std::vector<float>(6)) == PADDLE_ERROR); // as many bytes, of another element
    CHECK(weights<double>(o) == std::vector<double>{0, 1, 2});

    auto* const integers = static_cast<std::int32_t*>(std::calloc(4, sizeof(std::int32_t)));
    std::string const bytes = with.bytes();
    for (int type : {0, 1, 2, 3, 6, 7, -1, 99})
        CHECK(paddle_create_optimizer(unsigned_bytes(bytes), static_cast<int>(bytes.size()),
                                      static_cast<paddle_element_type>(type), integers, 16, nullptr, 0) == nullptr);
    std::free(integers); // still ours
}

TEST_CASE("regression: the weights under nesterov decay") {
    // PaddlePaddle decayed the velocity only, and thus nothing where momentum is 0.
    for (double momentum : {0.0, 0.75})
        check_against_oracle<float>({.momentum = momentum, .decay = 0.1, .nesterov = true});
}

#if defined(__GLIBC__)
TEST_CASE("regression: updates, weights, states and releases leave no memory behind") {
    config const with{.optimizer = Adam, .decay = 0.1, .clip_norm = 1};
    auto const g = gradient<float>(1);
    int const bytes = static_cast<int>(g.size() * sizeof(float));
    std::vector<char> anywhere(g.size() * sizeof(float) + 1);
    std::memcpy(anywhere.data() + 1, g.data(), g.size() * sizeof(float));
    auto const o = create(with.bytes(), start<float>());
    std::string const state = state_of(o);

    // glibc's smallest block has 32 bytes, and its pools of free blocks do not grow with the calls.
    // Under sanitizers, which look for themselves, there is nothing to count.
    auto leaks = [](int calls, auto const& f) {
        auto many = [&] {
            for (int i = 0; i < calls; ++i) f();
        };
        many(); // what is allocated once
        auto const before = mallinfo2().uordblks;
        many();
        return static_cast<std::ptrdiff_t>(mallinfo2().uordblks) - static_cast<std::ptrdiff_t>(before) >= 8 * calls;
    };
    int const lives = 6000; // the C library remembers the last 4096 handles that were released
    CHECK_FALSE(leaks(10000, [&] { update(o, g); }));
    CHECK_FALSE(leaks(10000, [&] { paddle_update_parameter(o.get(), element<float>, anywhere.data() + 1, bytes); }));
    CHECK_FALSE(leaks(10000, [&] { paddle_update_parameter(o.get(), element<float>, g.data(), bytes - 4); }));
    CHECK_FALSE(leaks(10000, [&] { weights<float>(o); }));
    CHECK_FALSE(leaks(1000, [&] { state_of(o); }));
    CHECK_FALSE(leaks(lives, [&] { create(with.bytes(), start<float>(), state); }));
    CHECK_FALSE(leaks(lives, [&] { create(with.bytes(), start<float>(), "no state"); }));
    CHECK_FALSE(leaks(1000, [&] { create("no message", start<float>()); }));
}
#endif

#if defined(COUNTS_ALLOCATIONS)
// Calls f with the first allocation failing, then the second, and so on, until there is memory
// enough; check(result, whether there was).
template <class F, class Check> void each_failure(F const& f, Check const& check) {
    for (std::size_t successes = 0;; ++successes) {
        allocations_until_failure = successes;
        auto const result = f();
        bool const is_over = allocations_until_failure != SIZE_MAX;
        allocations_until_failure = SIZE_MAX;
        check(result, is_over);
        if (is_over) return;
    }
}

TEST_CASE("without memory no optimizer is made, and the buffer stays as it is") {
    std::string const bytes = config{.optimizer = Adam}.bytes();
    auto const values = start<float>();
    std::string const state = state_of(create(bytes, values));
    auto* const buffer = static_cast<float*>(std::calloc(count, sizeof(float)));
    optimizer o;
    each_failure(
        [&] {
            return paddle_create_optimizer(unsigned_bytes(bytes), static_cast<int>(bytes.size()), element<float>,
                                           buffer, static_cast<int>(count * sizeof(float)), state.data(),
                                           static_cast<int>(state.size()));
        },
        [&](paddle_optimizer* got, bool is_over) {
            CHECK((got != nullptr) == is_over);
            CHECK((buffer[0] == values[0]) == is_over);
            o.reset(got);
        });
}

TEST_CASE("without memory updates and states fail, and nothing changes") {
    auto const values = start<float>();
    auto const o = create(config{.optimizer = Adam, .clip_norm = 1}.bytes(), values);
    std::string const before = state_of(o);
    int const bytes = static_cast<int>(values.size() * sizeof(float));
    std::vector<char> anywhere(values.size() * sizeof(float) + 1);
    std::memcpy(anywhere.data() + 1, values.data(), values.size() * sizeof(float));
    each_failure([&] { return paddle_update_parameter(o.get(), element<float>, anywhere.data() + 1, bytes); },
                 [&](int got, bool is_over) {
                     CHECK(got == (is_over ? PADDLE_SUCCESS : PADDLE_ERROR));
                     CHECK((state_of(o) != before) == is_over);
                 });
    char const* state = nullptr;
    each_failure([&] { return paddle_optimizer_get_state(o.get(), &state); },
                 [&](int got, bool is_over) {
                     CHECK((got > 0) == is_over);
                     CHECK((state != nullptr) == is_over);
                 });
    std::free(const_cast<char*>(state));
}
#endif

TEST_CASE("clip_value clips each element, clip_norm scales the gradient") {
    config with{.rate = 1};
    with.clip_value = 0.5;
    auto const by_value = create(with.bytes(), std::vector<double>{1, 1, 1});
    REQUIRE(update(by_value, std::vector<double>{4, -4, 0.25}) == PADDLE_SUCCESS);
    CHECK(weights<double>(by_value) == std::vector<double>{0.5, 1.5, 0.75});

    with.clip_value = 0;
    with.clip_norm = 2.5;
    auto const by_norm = create(with.bytes(), std::vector<double>{1, 1});
    REQUIRE(update(by_norm, std::vector<double>{3, -4}) == PADDLE_SUCCESS); // of norm 5
    CHECK(weights<double>(by_norm) == std::vector<double>{-0.5, 3});
    REQUIRE(update(by_norm, std::vector<double>{0.25, 0}) == PADDLE_SUCCESS);
    CHECK(weights<double>(by_norm) == std::vector<double>{-0.75, 3});
    for (double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
        CHECK(update(by_norm, std::vector<double>{bad, 0}) == PADDLE_ERROR);
    CHECK(weights<double>(by_norm) == std::vector<double>{-0.75, 3});

    with.clip_value = 1;
    auto const by_both = create(with.bytes(), std::vector<double>{1, 1});
    REQUIRE(update(by_both, std::vector<double>{3, -4}) == PADDLE_SUCCESS); // {1.5, -2} by the norm
    CHECK(weights<double>(by_both) == std::vector<double>{0, 2});
}

TEST_CASE("what a message leaves out has PaddlePaddle's default") {
    // No bytes, at an address or at none, are an empty message: sgd at a rate of 1.
    unsigned char const anywhere = 0;
    for (unsigned char const* bytes : {&anywhere, static_cast<unsigned char const*>(nullptr)}) {
        INFO(static_cast<void const*>(bytes));
        std::string state;
        for (float expected : {2.5F, 2.0F, 1.5F}) { // each by a new optimizer, from the state of the last one
            auto* const buffer = static_cast<float*>(std::malloc(sizeof(float)));
            *buffer = 3;
            optimizer const empty{paddle_create_optimizer(bytes, 0, element<float>, buffer, sizeof(float),
                                                          state.empty() ? nullptr : state.data(),
                                                          static_cast<int>(state.size()))};
            if (!empty) std::free(buffer);
            REQUIRE(empty);
            REQUIRE(update(empty, std::vector<float>{0.5F}) == PADDLE_SUCCESS);
            CHECK(weights<float>(empty) == std::vector<float>{expected});
            state = state_of(empty);
        }
    }

    auto check = [](message const& short_one, config const& whole) {
        auto const left_out = create(short_one.bytes(), start<float>()), given = create(whole.bytes(), start<float>());
        REQUIRE((left_out && given));
        for (int t = 1; t <= 3; ++t) {
            REQUIRE(update(left_out, gradient<float>(t)) == PADDLE_SUCCESS);
            REQUIRE(update(given, gradient<float>(t)) == PADDLE_SUCCESS);
        }
        CHECK(weights<float>(left_out) == weights<float>(given));
    };
    check(message{}.integer(1, SGD).integer(11, 1), {.rate = 1, .linear = true});
    check(message{}.integer(1, Adadelta), {.optimizer = Adadelta, .rho = 0.9, .epsilon = 1e-5, .rate = 1});
    check(message{}.integer(1, Adagrad), {.optimizer = Adagrad, .epsilon = 1e-5, .rate = 1});
    check(message{}.integer(1, Adam), {.optimizer = Adam, .epsilon = 0, .beta1 = 0, .beta2 = 0, .rate = 1});
    check(message{}.integer(1, SGD).text(1000, "a field of tomorrow"), {.rate = 1});
}

TEST_CASE("a gradient may lie at any address, and the parameter is trained where it lies") {
    config const with{.optimizer = Adam};
    auto const even = create(with.bytes(), start<double>()), odd = create(with.bytes(), start<double>());
    void* before = nullptr;
    paddle_optimizer_get_weights(odd.get(), &before);
    for (int t = 1; t <= 3; ++t) {
        auto const g = gradient<double>(t);
        REQUIRE(update(even, g) == PADDLE_SUCCESS);
        std::vector<char> anywhere(g.size() * sizeof(double) + 3);
        std::memcpy(anywhere.data() + 3, g.data(), g.size() * sizeof(double));
        REQUIRE(paddle_update_parameter(odd.get(), PADDLE_ELEMENT_TYPE_FLOAT64, anywhere.data() + 3,
                                        static_cast<int>(g.size() * sizeof(double))) == PADDLE_SUCCESS);
    }
    CHECK(weights<double>(odd) == weights<double>(even));
    void* after = nullptr;
    paddle_optimizer_get_weights(odd.get(), &after);
    CHECK(after == before);
}

TEST_CASE("NULL and sizes that do not fit are refused, and nothing changes") {
    config const with{.optimizer = Adam};
    std::string const bytes = with.bytes();
    auto const* const message = unsigned_bytes(bytes);
    int const length = static_cast<int>(bytes.size());
    auto* const buffer = static_cast<float*>(std::calloc(8, sizeof(float)));
    auto const type = PADDLE_ELEMENT_TYPE_FLOAT32;
    CHECK(paddle_create_optimizer(nullptr, 0, type, nullptr, 32, nullptr, 0) == nullptr);
    CHECK(paddle_create_optimizer(nullptr, -1, type, buffer, 32, nullptr, 0) == nullptr);
    CHECK(paddle_create_optimizer(nullptr, length, type, buffer, 32, nullptr, 0) == nullptr);
    CHECK(paddle_create_optimizer(message, -1, type, buffer, 32, nullptr, 0) == nullptr);
    CHECK(paddle_create_optimizer(message, length, type, nullptr, 32, nullptr, 0) == nullptr);
    for (int size : {0, -4, 2, 31})
        CHECK(paddle_create_optimizer(message, length, type, buffer, size, nullptr, 0) == nullptr);
    CHECK(paddle_create_optimizer(message, length, PADDLE_ELEMENT_TYPE_FLOAT64, buffer, 20, nullptr, 0) == nullptr);
    CHECK(paddle_create_optimizer(message, length, type, reinterpret_cast<char*>(buffer) + 1, 16, nullptr, 0) ==
          nullptr);
    CHECK(paddle_create_optimizer(message, length, type, buffer, 32, nullptr, 5) == nullptr);
    CHECK(paddle_create_optimizer(message, length, type, buffer, 32, "state", -5) == nullptr);

    optimizer const o{paddle_create_optimizer(message, length, type, buffer, 32, nullptr, 0)};
    REQUIRE(o);
    std::string const before = state_of(o);
    std::vector<float> const g(9, 1.0F);
    CHECK(paddle_update_parameter(nullptr, type, g.data(), 32) == PADDLE_ERROR);
    CHECK(paddle_update_parameter(o.get(), type, nullptr, 32) == PADDLE_ERROR);
    for (int size : {0, 28, 31, 36, -32}) CHECK(paddle_update_parameter(o.get(), type, g.data(), size) == PADDLE_ERROR);
    CHECK(paddle_update_parameter(o.get(), static_cast<paddle_element_type>(99), g.data(), 32) == PADDLE_ERROR);
    CHECK(paddle_update_parameter(o.get(), type, buffer, 32) == PADDLE_ERROR); // the parameter itself
    CHECK(state_of(o) == before);

    void* weights = buffer;
    CHECK(paddle_optimizer_get_weights(nullptr, &weights) == PADDLE_ERROR);
    CHECK(weights == nullptr);
    CHECK(paddle_optimizer_get_weights(o.get(), nullptr) == PADDLE_ERROR);
    char const* state = "state";
    CHECK(paddle_optimizer_get_state(nullptr, &state) == PADDLE_ERROR);
    CHECK(state == nullptr);
    CHECK(paddle_optimizer_get_state(o.get(), nullptr) == PADDLE_ERROR);
    CHECK(paddle_release_optimizer(nullptr) == PADDLE_SUCCESS);
}

TEST_CASE("messages that are none, and numbers out of range, are refused") {
    auto refused = [](std::string const& bytes) { return create(bytes, std::vector<float>{1, 2}) == nullptr; };
    CHECK(refused("no message"));
    for (unsigned unknown : {0U, 5U, 77U}) CHECK(refused(message{}.integer(1, unknown).bytes()));
    CHECK(refused(message{}.integer(11, 2).bytes()));

    double const nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    for (double bad : {-1.0, nan, infinity}) {
        INFO(bad);
        CHECK(refused(config{.rate = bad}.bytes()));
        CHECK(refused(config{.decay = bad}.bytes()));
        CHECK(refused(config{.momentum = bad}.bytes()));
        CHECK(refused(config{.b = bad, .linear = true}.bytes()));
        CHECK(refused(config{.clip_norm = bad}.bytes()));
        CHECK(refused(config{.clip_value = bad}.bytes()));
        for (kind optimizer : {Adadelta, Adagrad, Adam}) {
            CHECK(refused(config{.optimizer = optimizer, .decay = bad}.bytes()));
            CHECK(refused(config{.optimizer = optimizer, .epsilon = bad}.bytes()));
        }
        CHECK(refused(config{.optimizer = Adadelta, .rho = bad}.bytes()));
        CHECK(refused(config{.optimizer = Adam, .beta1 = bad}.bytes()));
        CHECK(refused(config{.optimizer = Adam, .beta2 = bad}.bytes()));
    }
    CHECK(refused(config{.optimizer = Adam, .beta2 = 1}.bytes()));
    CHECK(refused(config{.a = nan, .linear = true}.bytes()));

    // every beginning of a message is a message or refused; nothing else happens
    std::string const whole = config{.optimizer = Adam, .decay = 0.1, .linear = true}.bytes();
    for (std::size_t n = 0; n < whole.size(); ++n) refused(whole.substr(0, n));
    for (std::size_t i = 0; i < whole.size(); ++i) {
        auto other = whole;
        other[i] = static_cast<char>(other[i] ^ 0x5a);
        refused(other);
    }
}

TEST_CASE("states of something else are refused, and leave the buffer alone") {
    config const adam{.optimizer = Adam}, sgd{.optimizer = SGD}, momentum{.optimizer = SGD, .momentum = 0.5};
    std::vector<float> const values{1, 2, 3};
    std::string const state = state_of(create(adam.bytes(), values));

    auto* const buffer = static_cast<float*>(std::calloc(3, sizeof(float)));
    auto refused = [&](config const& with, std::string const& bytes) {
        std::string const message = with.bytes();
        auto* const o = paddle_create_optimizer(unsigned_bytes(message), static_cast<int>(message.size()),
                                                PADDLE_ELEMENT_TYPE_FLOAT32, buffer, 12, bytes.data(),
                                                static_cast<int>(bytes.size()));
        bool const is_as_before = std::all_of(buffer, buffer + 3, [](float x) { return x == 0; });
        if (o == nullptr) return is_as_before;
        FAIL("it was taken");
        return false;
    };
    CHECK(refused(adam, "no state"));
    CHECK(refused(adam, state_of(create(adam.bytes(), std::vector<float>{1, 2}))));     // another size
    CHECK(refused(adam, state_of(create(adam.bytes(), std::vector<double>{1, 2, 3})))); // another element
    CHECK(refused(adam, state_of(create(sgd.bytes(), values))));                        // another rule
    CHECK(refused(sgd, state));
    CHECK(refused(sgd, state_of(create(momentum.bytes(), values))));
    CHECK(refused(momentum, state_of(create(sgd.bytes(), values))));
    for (std::size_t n : {state.size() / 4, state.size() / 2, state.size() - 1})
        CHECK(refused(adam, state.substr(0, n)));

    auto tensor = [](std::string const& x) { return message{}.integer(1, 4).text(2, x).text(2, "2").text(2, "3"); };
    auto with = [&](std::string const& x, double passed) {
        return message{}.inside(1, tensor(x)).number(104, passed).bytes();
    };
    for (auto const* bad : {"", "one", "1 ", "1.5x", "1e999", "0x10"}) CHECK(refused(sgd, with(bad, 0)));
    for (double bad : {-1.0, 0.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) CHECK(refused(sgd, with("1", bad)));
    std::free(buffer);
    CHECK(create(sgd.bytes(), values, with("1", 3)) != nullptr);
}
