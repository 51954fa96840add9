// The numbers that schedules do not take: each is refused by name, with what is allowed, before the
// first step.
#include <limits>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "support/catch.hpp"
#include "support/refusal.hpp"

namespace gs = gradstep;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Schedule> std::string refused(Schedule schedule) {
    return refusal<gs::value_error>([&] { gs::make_updater<float>(gs::sgd{}, schedule); });
}

} // namespace

TEST_CASE("a member of a schedule that is left out is refused by name", "[schedules]") {
    std::string const rate = ": is missing; expected a number that is finite and >= 0";
    std::string const steps = ": is missing; expected a number that is >= 1",
                      count = ": is missing; expected a number that is >= 0";
    CHECK(refused(gs::polynomial{.steps = 3}) == "polynomial.rate" + rate);
    CHECK(refused(gs::polynomial{.rate = 1}) == "polynomial.steps" + steps);
    CHECK(refused(gs::linear{.a = 1, .b = 1}) == "linear.rate" + rate);
    CHECK(refused(gs::linear{.rate = 1, .b = 1}) == "linear.a" + rate);
    CHECK(refused(gs::linear{.rate = 1, .a = 1}) == "linear.b" + rate);
    CHECK(refused(gs::inverse_time{.decay = 1, .steps = 3}) == "inverse_time.rate" + rate);
    CHECK(refused(gs::inverse_time{.rate = 1, .steps = 3}) == "inverse_time.decay" + rate);
    CHECK(refused(gs::inverse_time{.rate = 1, .decay = 1}) == "inverse_time.steps" + steps);
    CHECK(refused(gs::natural_exp{.decay = 1, .steps = 3}) == "natural_exp.rate" + rate);
    CHECK(refused(gs::natural_exp{.rate = 1, .steps = 3}) == "natural_exp.decay" + rate);
    CHECK(refused(gs::natural_exp{.rate = 1, .decay = 1}) == "natural_exp.steps" + steps);
    CHECK(refused(gs::cosine_restarts{.steps = 3}) == "cosine_restarts.rate" + rate);
    CHECK(refused(gs::cosine_restarts{.rate = 1}) == "cosine_restarts.steps" + steps);
    CHECK(refused(gs::one_cycle{.steps = 3}) == "one_cycle.rate" + rate);
    CHECK(refused(gs::one_cycle{.rate = 1}) == "one_cycle.steps" + steps);
    CHECK(refused(gs::one_cycle_momentum{}) == "one_cycle_momentum.steps" + steps);
    CHECK(refused(gs::cyclic{.high = 1, .rise = 1, .fall = 1}) == "cyclic.low" + rate);
    CHECK(refused(gs::cyclic{.low = 1, .rise = 1, .fall = 1}) == "cyclic.high" + rate);
    CHECK(refused(gs::cyclic{.low = 1, .high = 1, .fall = 1}) == "cyclic.rise" + steps);
    CHECK(refused(gs::cyclic{.low = 1, .high = 1, .rise = 1}) == "cyclic.fall" + steps);
    CHECK(refused(gs::noam{.width = 1, .steps = 1}) == "noam.rate" + rate);
    CHECK(refused(gs::noam{.rate = 1, .steps = 1}) == "noam.width" + steps);
    CHECK(refused(gs::noam{.rate = 1, .width = 1}) == "noam.steps" + steps);
    CHECK(refused(gs::warmup_stable_decay{.warmup = 1, .stable = 1, .decay = 1}) == "warmup_stable_decay.rate" + rate);
    CHECK(refused(gs::warmup_stable_decay{.rate = 1, .stable = 1, .decay = 1}) == "warmup_stable_decay.warmup" + count);
    CHECK(refused(gs::warmup_stable_decay{.rate = 1, .warmup = 1, .decay = 1}) == "warmup_stable_decay.stable" + count);
    CHECK(refused(gs::warmup_stable_decay{.rate = 1, .warmup = 1, .stable = 1}) == "warmup_stable_decay.decay" + count);
    CHECK(refused(gs::scaled{gs::constant{1}}) == "scaled.factor" + rate);
    CHECK(refused(gs::clamped{gs::constant{1}}) == "clamped.low" + rate);
    CHECK(refused(gs::clamped{gs::constant{1}, 0}) == "clamped.high" + rate);
    CHECK(refused(gs::piecewise{}) == "piecewise.rates: has length 0; expected 1, one more than boundaries");
}

TEST_CASE("a number of a schedule that is out of range is refused", "[schedules]") {
    std::string const rate = " is out of range; expected finite and >= 0";
    CHECK(refused(gs::polynomial{.rate = 1, .steps = 0}) == "polynomial.steps: 0 is out of range; expected >= 1");
    CHECK(refused(gs::polynomial{.rate = -1, .steps = 1}) == "polynomial.rate: -1" + rate);
    CHECK(refused(gs::polynomial{.rate = 1, .steps = 1, .end = -1}) == "polynomial.end: -1" + rate);
    CHECK(refused(gs::polynomial{.rate = 1, .steps = 1, .power = -1}) == "polynomial.power: -1" + rate);
    CHECK(refused(gs::linear{.rate = 1, .a = -1, .b = 0}) == "linear.a: -1" + rate);
    CHECK(refused(gs::linear{.rate = 1, .a = 1, .b = infinity}) == "linear.b: inf" + rate);
    CHECK(refused(gs::inverse_time{.rate = 1, .decay = -1, .steps = 1}) == "inverse_time.decay: -1" + rate);
    CHECK(refused(gs::inverse_time{.rate = 1, .decay = 1, .steps = 0}) ==
          "inverse_time.steps: 0 is out of range; expected >= 1");
    CHECK(refused(gs::natural_exp{.rate = 1, .decay = -1, .steps = 1}) == "natural_exp.decay: -1" + rate);
    CHECK(refused(gs::natural_exp{.rate = 1, .decay = 1, .steps = 0}) ==
          "natural_exp.steps: 0 is out of range; expected >= 1");
    CHECK(refused(gs::cosine_restarts{.rate = 1, .steps = 0}) ==
          "cosine_restarts.steps: 0 is out of range; expected >= 1");
    CHECK(refused(gs::cosine_restarts{.rate = 1, .steps = 1, .end = -1}) == "cosine_restarts.end: -1" + rate);
    CHECK(refused(gs::cosine_restarts{.rate = 1, .steps = 1, .multiply = 0.5}) ==
          "cosine_restarts.multiply: 0.5 is out of range; expected finite and >= 1");
    CHECK(refused(gs::cosine_restarts{.rate = 1, .steps = 1, .decay = -0.5}) == "cosine_restarts.decay: -0.5" + rate);
    CHECK(refused(gs::one_cycle{.rate = 1, .steps = 0}) == "one_cycle.steps: 0 is out of range; expected >= 1");
    CHECK(refused(gs::one_cycle{.rate = 1, .steps = 1, .rise = 1.25}) ==
          "one_cycle.rise: 1.25 is out of range; expected [0, 1]");
    CHECK(refused(gs::one_cycle{.rate = 1, .steps = 1, .rise = -0.25}) ==
          "one_cycle.rise: -0.25 is out of range; expected [0, 1]");
    CHECK(refused(gs::one_cycle{.rate = 1, .steps = 1, .start_divisor = 0}) ==
          "one_cycle.start_divisor: 0 is out of range; expected finite and > 0");
    CHECK(refused(gs::one_cycle{.rate = 1, .steps = 1, .end_divisor = -1}) ==
          "one_cycle.end_divisor: -1 is out of range; expected finite and > 0");
    CHECK(refused(gs::one_cycle_momentum{.steps = 1, .low = 1.5}) ==
          "one_cycle_momentum.low: 1.5 is out of range; expected [0, 1]");
    CHECK(refused(gs::one_cycle_momentum{.steps = 1, .high = -1}) ==
          "one_cycle_momentum.high: -1 is out of range; expected [0, 1]");
    CHECK(refused(gs::one_cycle_momentum{.steps = 1, .rise = 2}) ==
          "one_cycle_momentum.rise: 2 is out of range; expected [0, 1]");
    CHECK(refused(gs::cyclic{.low = 0, .high = 1, .rise = 0, .fall = 1}) ==
          "cyclic.rise: 0 is out of range; expected >= 1");
    CHECK(refused(gs::cyclic{.low = 0, .high = 1, .rise = 1, .fall = 0}) ==
          "cyclic.fall: 0 is out of range; expected >= 1");
    CHECK(refused(gs::cyclic{.low = -1, .high = 1, .rise = 1, .fall = 1}) == "cyclic.low: -1" + rate);
    CHECK(refused(gs::cyclic{.low = 0, .high = 1, .rise = 1, .fall = 1, .gamma = 0}) ==
          "cyclic.gamma: 0 is out of range; expected finite and > 0");
    CHECK(refused(gs::cyclic{.low = 0, .high = 1, .rise = 8, .fall = std::numeric_limits<std::int64_t>::max()}) ==
          "cyclic.fall: 9223372036854775807 is out of range; expected <= 9223372036854775799, so that rise + fall is a "
          "count");
    CHECK(
        refused(gs::cyclic{
            .low = 1, .high = 0.5, .rise = 1, .fall = 1, .mode = gs::cyclic_mode::exp_range, .gamma = 1.5}) ==
        "cyclic.gamma: 1.5 is out of range; expected <= 1 where high = 0.5 is below low = 1, or rates become negative");
    gs::cyclic const level{.low = 1, .high = 0.5, .rise = 1, .fall = 1, .gamma = 1.5}; // gamma is not looked at
    CHECK_NOTHROW(gs::make_updater<float>(gs::sgd{}, level));
    CHECK(refused(gs::cosine_restarts{.rate = 0.5, .steps = 1, .end = 1, .decay = 1.5}) ==
          "cosine_restarts.decay: 1.5 is out of range; expected <= 1 where rate = 0.5 is below end = 1, or rates "
          "become negative");
    CHECK(refused(gs::noam{.rate = 1, .width = 0, .steps = 1}) == "noam.width: 0 is out of range; expected >= 1");
    CHECK(refused(gs::noam{.rate = 1, .width = 1, .steps = 0}) == "noam.steps: 0 is out of range; expected >= 1");
    CHECK(refused(gs::warmup_stable_decay{.rate = 1, .warmup = -2, .stable = 1, .decay = 1}) ==
          "warmup_stable_decay.warmup: -2 is out of range; expected >= 0");
    CHECK(refused(gs::warmup_stable_decay{.rate = 1, .warmup = 1, .stable = 1, .decay = 1, .start = not_a_number}) ==
          "warmup_stable_decay.start: nan" + rate);
    CHECK(refused(gs::scaled{gs::constant{1}, -2}) == "scaled.factor: -2" + rate);
    CHECK(refused(gs::clamped{gs::constant{1}, 0.5, 0.25}) ==
          "clamped.low: 0.5 is out of range; expected <= high = 0.25");
    CHECK(refused(gs::clamped{gs::constant{1}, 0.5, infinity}) == "clamped.high: inf" + rate);
}

TEST_CASE("the numbers of a list are refused one by one", "[schedules]") {
    CHECK(refused(gs::piecewise{{1, -2}, {1, 1, 1}}) == "piecewise.boundaries[1]: -2 is out of range; expected >= 0");
    CHECK(refused(gs::piecewise{{-1}, {1, 1}}) == "piecewise.boundaries[0]: -1 is out of range; expected >= 0");
    CHECK(refused(gs::piecewise{{1, 2}, {1, 1, -1}}) ==
          "piecewise.rates[2]: -1 is out of range; expected finite and >= 0");
    CHECK(refused(gs::piecewise{{1}, {not_a_number, 1}}) ==
          "piecewise.rates[0]: nan is out of range; expected finite and >= 0");
    CHECK(refused(gs::piecewise{{1, 2}, {1, 1}}) ==
          "piecewise.rates: has length 2; expected 3, one more than boundaries");
    CHECK(refused(gs::piecewise{{5, 8, 7}, {1, 1, 1, 1}}) ==
          "piecewise.boundaries[2]: 7 is out of range; expected >= 8, the boundary before it");
}

TEST_CASE("boundaries of a chain that fall are refused, and what its schedules refuse", "[schedules]") {
    gs::constant const rate{1};
    CHECK(refused(gs::chain{rate, -1, rate}) == "chain: boundary -1 is out of range; expected >= 0");
    CHECK(refused(gs::chain{rate, 10, rate, 9, rate}) ==
          "chain: boundary 9 is out of range; expected >= 10, the boundary before it");
    CHECK(refused(gs::chain{rate, 10, rate, 20, gs::constant{}}) ==
          "constant.rate: is missing; expected a number that is finite and >= 0");
    CHECK(refused(gs::chain{gs::constant{-1}, 10, rate}) ==
          "constant.rate: -1 is out of range; expected finite and >= 0");
    CHECK(refused(gs::chain{rate, 10, gs::chain{rate, -5, rate}}) ==
          "chain: boundary -5 is out of range; expected >= 0");
}

TEST_CASE("a schedule inside another is checked", "[schedules]") {
    gs::constant const bad{-1};
    std::string const text = "constant.rate: -1 is out of range; expected finite and >= 0";
    CHECK(refused(gs::scaled{bad, 1}) == text);
    CHECK(refused(gs::clamped{bad, 0, 1}) == text);
    CHECK(refused(gs::by_samples{bad}) == text);
    CHECK(refused(gs::by_epochs{gs::by_samples{bad}}) == text);
    CHECK(refused(gs::warmup{gs::piecewise{{1}, {1}}, 2}) ==
          "piecewise.rates: has length 1; expected 2, one more than boundaries");
}
