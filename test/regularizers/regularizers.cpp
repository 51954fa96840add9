// Every regularizer's map against its formula, and how they compose.
#include <gradstep/gradstep.hpp>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr double lr = 0.125;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// Shows what the rule is given: the gradient that arrives goes to the slot, the weight stays.
struct look {
    template <class X> struct state { X seen; };
    static constexpr std::array state_names{"seen"};
    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(gs::step_info) const { return {}; }
    template <class T, gs::pack V> GRADSTEP_HD static void apply(coeffs<T> const&, V&, V g, state<V>& s) { s.seen = g; }
};

struct pair {
    double w, g;
};

// Weight and gradient after the regularizer; in double, where powers of two make the formulas
// exact.
template <class Regularizer> pair apply(Regularizer const& regularizer, double w, double g) {
    auto optimizer = gs::make_updater<double>(look{}, regularizer, gs::constant{lr}, gs::serial_backend{});
    std::vector<double> weight{w}, gradient{g}, seen{0.0};
    optimizer.next_step()(weight, gradient, seen);
    return {weight[0], seen[0]};
}
template <class Regularizer> double gradient_of(Regularizer const& regularizer, double w, double g) {
    pair const after = apply(regularizer, w, g);
    CHECK(after.w == w);
    return after.g;
}
template <class Regularizer> double weight_of(Regularizer const& regularizer, double w) {
    pair const after = apply(regularizer, w, 0.5);
    CHECK(after.g == 0.5);
    return after.w;
}

// A regularizer of the user's own.
struct doubling {
    template <class T> struct coeffs {};
    template <class T> coeffs<T> prepare(gs::step_info) const { return {}; }
    template <class T, gs::pack V> GRADSTEP_HD static void before(coeffs<T> const&, V&, V& g) { g = g + g; }
};

double sgn(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

} // namespace

TEST_CASE("none changes nothing", "[regularizers]") { CHECK(gradient_of(gs::none{}, 3, -0.5) == -0.5); }

TEST_CASE("coupled penalties enter the gradient", "[regularizers]") {
    for (double const w : {0.0, 0.25, -0.75, 3.0, -1024.0})
        for (double const g : {0.0, 0.5, -2.0}) {
            CHECK(gradient_of(gs::l1{0.25}, w, g) == g + 0.25 * sgn(w));
            CHECK(gradient_of(gs::l2{0.25}, w, g) == g + 0.25 * w);
            CHECK(gradient_of(gs::elastic_net{.l1 = 0.5, .l2 = 0.25}, w, g) == g + 0.25 * w + 0.5 * sgn(w));
        }
}

TEST_CASE("decoupled decay shrinks the weight by lr * rate", "[regularizers]") {
    for (double const w : {0.0, 0.25, -0.75, 3.0, -1024.0}) CHECK(weight_of(gs::decoupled{2}, w) == w * (1 - lr * 2));
    CHECK(weight_of(gs::decoupled{0}, 3) == 3);
}

TEST_CASE("decoupled decay scaled by one shrinks by its rate, whatever the learning rate", "[regularizers]") {
    gs::decoupled const decay{.rate = 0.25, .scaled_by = gs::decay_scale::one};
    for (double const w : {0.0, 0.25, -0.75, 3.0, -1024.0}) CHECK(weight_of(decay, w) == w * 0.75);
    CHECK(gs::describe(decay) == "decoupled{rate = 0.25, scaled_by = one}");
    CHECK_THAT(refusal<gs::value_error>([] {
                   weight_of(gs::decoupled{1, gs::decay_scale::one}, 3);
               }),
               Catch::Matchers::StartsWith("decoupled: rate: 1 is out of range; expected < 1"));
}

TEST_CASE("decoupled decay after the step shrinks what the rule has moved", "[regularizers]") {
    auto optimizer =
        gs::make_updater<double>(gs::sgd{}, gs::after_step{gs::decoupled{2}}, gs::constant{lr}, gs::serial_backend{});
    std::vector<double> w = {1, 0.5, -1}, g = {0, 4, -16};
    optimizer.next_step()(w, g);
    CHECK(w == std::vector<double>{0.75, 0, 0.75});
}

TEST_CASE("proximal is the minimiser of its penalty", "[regularizers]") {
    for (double const w : {0.0, 0.25, -0.75, 3.0, -1024.0}) {
        CHECK(weight_of(gs::proximal{gs::l1{4}}, w) == sgn(w) * std::max(0.0, std::abs(w) - lr * 4));
        CHECK(weight_of(gs::proximal{gs::l2{8}}, w) == w / (1 + lr * 8));
        CHECK(weight_of(gs::proximal{gs::elastic_net{.l1 = 4, .l2 = 8}}, w) ==
              sgn(w) * std::max(0.0, std::abs(w) - lr * 4) / (1 + lr * 8));
    }
}

TEST_CASE("proximal gives exact zeros and keeps the sign", "[regularizers]") {
    gs::proximal const net{gs::elastic_net{.l1 = 4, .l2 = 8}}; // threshold 0.5
    for (double const w : {0.0, 0.25, 0.5}) {
        CHECK(weight_of(net, w) == 0);
        CHECK(weight_of(net, -w) == 0);
        CHECK(!std::signbit(weight_of(net, w)));
        CHECK(std::signbit(weight_of(net, -w)));
    }
    CHECK(weight_of(net, 0.75) == 0.125);
    CHECK(weight_of(net, -0.75) == -0.125);
    CHECK(weight_of(net, infinity) == infinity);
    CHECK(weight_of(net, -infinity) == -infinity);
    CHECK(std::isnan(weight_of(net, not_a_number)));
}

TEST_CASE("proximal acts on the weight that the rule has moved", "[regularizers]") {
    auto optimizer =
        gs::make_updater<double>(gs::sgd{}, gs::proximal{gs::l1{4}}, gs::constant{lr}, gs::serial_backend{});
    std::vector<double> w = {1, 0.5, -1}, g = {0, 1, -16};
    optimizer.next_step()(w, g);
    CHECK(w == std::vector<double>{0.5, 0, 0.5});
}

TEST_CASE("cautious_decay decays the weights that the rule does not move away from zero", "[regularizers]") {
    auto const step = [](auto const& regularizer, double w, double g) {
        auto optimizer = gs::make_updater<double>(gs::sgd{}, regularizer, gs::constant{lr}, gs::serial_backend{});
        std::vector<double> weight{w}, gradient{g};
        optimizer.next_step()(weight, gradient);
        return weight[0];
    };
    gs::cautious_decay const decay{2}; // a quarter of the weight
    for (double const sign : {1.0, -1.0}) {
        CHECK(step(decay, sign * 4, sign * 8) == sign * 2);   // towards zero: 4 - 1 - 1
        CHECK(step(decay, sign * 4, sign * 64) == sign * -5); // through it: 4 - 8 - 1
        CHECK(step(decay, sign * 4, 0) == sign * 3);          // at rest
        CHECK(step(decay, sign * 4, sign * -8) == sign * 5);  // away from it
        CHECK(step(decay, 0, sign) == sign * -0.125);
        CHECK(step(gs::cautious_decay{.rate = 0.25, .scaled_by = gs::decay_scale::one}, sign * 4, sign * 8) ==
              sign * 2);
        // The weight before the rule is the one that decoupled has left: 2, and 2 + 1 is away from
        // zero.
        CHECK(step(gs::all_of{gs::decoupled{4}, decay}, sign * 4, sign * -8) == sign * 3);
        CHECK(step(gs::all_of{gs::decoupled{4}, decay}, sign * 4, 0) == sign * 1.5);
        // What acts after the rule to its left counts as the rule's: 4 + 1, halved, is towards
        // zero.
        CHECK(step(gs::all_of{gs::after_step{gs::decoupled{4}}, decay}, sign * 4, sign * -8) == sign * 1.5);
        CHECK(step(gs::all_of{decay, gs::after_step{gs::decoupled{4}}}, sign * 4, sign * -8) == sign * 2.5);
    }
    CHECK(std::isnan(step(decay, not_a_number, 1)));
    CHECK(std::isnan(step(decay, 1, not_a_number)));
    CHECK(gs::describe(decay) == "cautious_decay{rate = 2, scaled_by = learning_rate}");
    CHECK(refusal<gs::value_error>([&] { step(gs::cautious_decay{8}, 1, 1); }) ==
          "cautious_decay: lr * rate = 0.125 * 8; expected < 1, or the weight changes its sign");
    CHECK_THAT(refusal<gs::value_error>([&] {
                   step(gs::cautious_decay{1, gs::decay_scale::one}, 1, 1);
               }),
               Catch::Matchers::StartsWith("cautious_decay: rate: 1 is out of range; expected < 1"));
}

TEST_CASE("cautious_decay sees the weight before a step of momentum, not its gradient", "[regularizers]") {
    auto optimizer =
        gs::make_updater<double>(gs::momentum{0.5}, gs::cautious_decay{2}, gs::constant{lr}, gs::serial_backend{});
    std::vector<double> w{4}, g{-16}, m{0};
    optimizer.next_step()(w, g, m); // 4 + 2, away from zero
    CHECK(w[0] == 6);
    g[0] = 4; // m = -8 + 4: away from zero still
    optimizer.next_step()(w, g, m);
    CHECK(w[0] == 6.5);
}

TEST_CASE("clamp_weight keeps every weight in its interval", "[regularizers]") {
    gs::clamp_weight const clamp{-0.5, 2};
    for (double const w : {-0.5, -0.0, 0.25, 2.0}) CHECK(weight_of(clamp, w) == w);
    CHECK(std::signbit(weight_of(clamp, -0.0)));
    for (double const w : {2.5, 1e300, infinity}) CHECK(weight_of(clamp, w) == 2);
    for (double const w : {-0.75, -1e300, -infinity}) CHECK(weight_of(clamp, w) == -0.5);
    CHECK(std::isnan(weight_of(clamp, not_a_number)));
    CHECK(weight_of(gs::clamp_weight{1, 1}, -3) == 1);
    CHECK(weight_of(gs::clamp_weight{0, infinity}, -3) == 0);
    CHECK(weight_of(gs::clamp_weight{0, infinity}, 1e300) == 1e300);
    CHECK(weight_of(gs::clamp_weight{-infinity, 0}, -1e300) == -1e300);

    // After the rule, and after the decay that comes before it.
    auto optimizer = gs::make_updater<double>(gs::sgd{}, gs::all_of{gs::decoupled{4}, gs::clamp_weight{-1, 1}},
                                              gs::constant{lr}, gs::serial_backend{});
    std::vector<double> w = {1, 1, 4}, g = {-16, 16, 0};
    optimizer.next_step()(w, g);
    CHECK(w == std::vector<double>{1, -1, 1});

    CHECK(gs::describe(gs::clamp_weight{-infinity, 2}) == "clamp_weight{low = -inf, high = 2}");
    auto const refused = [](gs::clamp_weight wrong) { return refusal<gs::value_error>([&] { weight_of(wrong, 1); }); };
    CHECK(refused({.low = 0}) == "clamp_weight.high: is missing; expected a number that is finite, or infinity");
    CHECK(refused({1, 0.5}) == "clamp_weight.low: 1 is above high = 0.5; expected low <= high");
    CHECK(refused({infinity, infinity}) == "clamp_weight.low: inf is out of range; expected finite, or -infinity");
    CHECK(refused({0, -infinity}) == "clamp_weight.high: -inf is out of range; expected finite, or infinity");
}

TEST_CASE("clip_value clips the gradient and keeps NaN", "[regularizers]") {
    gs::clip_value const clip{0.5};
    for (double const g : {0.0, 0.25, -0.25, 0.5, -0.5}) CHECK(gradient_of(clip, 3, g) == g);
    for (double const g : {0.75, 1e300, infinity}) {
        CHECK(gradient_of(clip, 3, g) == 0.5);
        CHECK(gradient_of(clip, 3, -g) == -0.5);
    }
    CHECK(std::isnan(gradient_of(clip, 3, not_a_number)));
    CHECK(std::signbit(gradient_of(clip, 3, -0.0)));
}

TEST_CASE("clip_value keeps NaN in every lane of a pack", "[regularizers]") {
    auto optimizer = gs::make_updater<float>(look{}, gs::clip_value{0.5}, gs::constant{lr});
    for (std::size_t where = 0; where < 70; ++where) {
        std::vector<float> w(70), g(70, 2), seen(70);
        g[where] = std::numeric_limits<float>::quiet_NaN();
        optimizer.next_step()(w, g, seen);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < 70; ++i) wrong += i == where ? !std::isnan(seen[i]) : seen[i] != 0.5f;
        CHECK(wrong == 0);
    }
}

TEST_CASE("all_of applies from left to right", "[regularizers]") {
    gs::clip_value const clip{0.5};
    gs::l2 const decay{1};
    CHECK(gradient_of(gs::all_of{clip, decay}, 2, 3) == 2.5);
    CHECK(gradient_of(gs::all_of{decay, clip}, 2, 3) == 0.5);
    CHECK(gradient_of(gs::all_of{clip, decay, gs::clip_value{0.75}, gs::l1{1}}, 2, 3) == 1.75);

    // What shrinks the weight is seen by what stands to its right.
    CHECK(apply(gs::all_of{gs::decoupled{4}, decay}, 2, 0).g == 1);
    CHECK(apply(gs::all_of{decay, gs::decoupled{4}}, 2, 0).g == 2);

    // Maps on the weight after the rule, too: soft threshold 0.5, then halving, and the other way
    // round.
    CHECK(weight_of(gs::all_of{gs::proximal{gs::l1{4}}, gs::proximal{gs::l2{8}}}, 3) == 1.25);
    CHECK(weight_of(gs::all_of{gs::proximal{gs::l2{8}}, gs::proximal{gs::l1{4}}}, 3) == 1);
}

TEST_CASE("all_of nests and does not collapse", "[regularizers]") {
    gs::clip_value const clip{0.5};
    gs::l2 const decay{1};
    static_assert(std::is_same_v<decltype(gs::all_of{gs::all_of{decay}}), gs::all_of<gs::all_of<gs::l2>>>);
    CHECK(gradient_of(gs::all_of{gs::all_of{clip, decay}, gs::clip_value{1}}, 2, 3) == 1);
    CHECK(gradient_of(gs::all_of{clip, gs::all_of{decay, gs::all_of{gs::clip_value{1}}}}, 2, 3) == 1);
    CHECK(gradient_of(gs::all_of{gs::all_of{gs::all_of{decay}}}, 2, 3) == 5);
}

TEST_CASE("without_decay keeps what is no decay", "[regularizers]") {
    using gs::all_of, gs::clip_value, gs::l1, gs::l2, gs::none, gs::decoupled, gs::elastic_net, gs::proximal;
    auto const becomes = []<class Expected, class Regularizer>(std::type_identity<Expected>, Regularizer const&) {
        return std::is_same_v<gs::without_decay_t<Regularizer>, Expected>;
    };
    auto const type = []<class T>(T const&) { return std::type_identity<T>{}; };
    clip_value const clip{0.5};
    CHECK(becomes(type(none{}), none{}));
    CHECK(becomes(type(none{}), l1{1}));
    CHECK(becomes(type(none{}), l2{1}));
    CHECK(becomes(type(none{}), elastic_net{.l1 = 1, .l2 = 1}));
    CHECK(becomes(type(none{}), decoupled{1}));
    CHECK(becomes(type(none{}), proximal{l2{1}}));
    CHECK(becomes(type(none{}), gs::cautious_decay{1}));
    gs::clamp_weight const clamp{-1, 1};
    CHECK(becomes(type(clamp), clamp));
    CHECK(becomes(type(clip), clip));

    auto const same = [](auto const& with, auto const& without) {
        for (double const g : {0.25, 3.0, -7.0}) {
            pair const a = apply(gs::without_decay(with), 2, g), b = apply(without, 2, g);
            CHECK(a.w == b.w);
            CHECK(a.g == b.g);
        }
    };
    clip_value const tight{0.25};
    same(all_of{l1{1}}, none{});
    same(all_of{l1{1}, l2{1}, decoupled{1}, proximal{l1{1}}}, none{});
    same(all_of{clip, l2{1}}, clip);
    same(all_of{l2{1}, clip}, clip);
    same(all_of{l2{1}, clip, decoupled{1}, tight}, all_of{clip, tight});
    same(all_of{all_of{clip, l2{1}}, decoupled{1}}, clip);
    same(all_of{all_of{l2{1}}, all_of{all_of{proximal{l1{1}}}, clip}}, clip);
    same(all_of{all_of{all_of{l1{1}}}}, none{});

    same(all_of{doubling{}, l2{1}}, doubling{}); // one of the user's own is no decay unless it says so
}
