// Every schedule that torch, Keras or optax have too, against what theirs give over 10 000 steps:
// the files that test/golden/schedules.py writes.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "support/catch.hpp"

namespace gs = gradstep;

namespace {

using settings = std::map<std::string, std::function<double(gs::clock)>>;
constexpr auto linear = gs::anneal::linear;
constexpr auto triangular2 = gs::cyclic_mode::triangular2, exp_range = gs::cyclic_mode::exp_range;

// This file scales rates as the systems do: 0.1 * 0.3 instead of 0.03.
settings const torch{
    {"exponential", gs::exponential{0.3, 0.999, 1}},
    {"exponential_growing", gs::exponential{1e-4, 1.0003, 1}},
    {"step_1000", gs::exponential{0.3, 0.5, 1000, true}},
    {"step_700", gs::exponential{0.1, 0.9, 700, true}},
    {"multi_step", gs::piecewise{{999, 2999, 6999}, {0.3, 0.3 * 0.1, 0.3 * 0.01, 0.3 * 0.001}}},
    {"multi_step_near", gs::piecewise{{99, 199}, {0.1, 0.1 * 0.5, 0.1 * 0.25}}},
    {"linear", gs::warmup{gs::constant{0.3}, 500, 0.3 * 0.1}},
    {"linear_falling", gs::warmup{gs::constant{0.1 * 0.25}, 5000, 0.1}},
    {"constant", gs::warmup{gs::constant{0.3}, 1000, 0.3 * 0.25, gs::ramp::constant}},
    {"polynomial", gs::polynomial{0.3, 8000, 0, 2}},
    {"polynomial_root", gs::polynomial{0.1, 5000, 0, 0.5}},
    {"cosine", gs::cosine{0.3, 10'000}},
    {"cosine_end", gs::cosine{0.3, 12'000, 0.01}},
    {"restarts", gs::cosine_restarts{0.3, 700, 0.01, 2}},
    {"restarts_even", gs::cosine_restarts{0.1, 500}},
    {"restarts_3", gs::cosine_restarts{0.1, 200, 0, 3}},
    {"one_cycle", gs::one_cycle{0.3, 10'000}},
    {"one_cycle_linear", gs::one_cycle{0.1, 8000, 0.25, 10, 100, linear}},
    {"one_cycle_broken", gs::one_cycle{0.1, 1001, 0.4}},
    {"one_cycle_momentum", gs::one_cycle_momentum{10'000}},
    {"one_cycle_momentum_linear", gs::one_cycle_momentum{8000, 0.5, 0.9, 0.25, linear}},
    {"one_cycle_momentum_broken", gs::one_cycle_momentum{1001, 0.85, 0.95, 0.4}},
    {"cyclic", gs::cyclic{0.01, 0.3, 200, 300}},
    {"cyclic_2", gs::cyclic{0.01, 0.3, 500, 500, triangular2}},
    {"cyclic_exp", gs::cyclic{0.01, 0.3, 500, 1500, exp_range, 0.9995}},
    {"sequential", gs::chain{gs::warmup{gs::constant{0.3}, 500, 0.3 * 0.1}, 500,
                             gs::piecewise{{999, 2999}, {0.3, 0.3 * 0.5, 0.3 * 0.25}}}},
    {"sequential_of_three", gs::chain{gs::constant{0.3 * 0.25}, 1000, gs::exponential{0.3, 0.5, 500, true}, 3000,
                                      gs::cyclic{0.01, 0.1, 500, 500}}},
};

settings const keras{
    {"exponential", gs::exponential{0.3, 0.96, 500}},
    {"exponential_staircase", gs::exponential{0.1, 0.5, 700, true}},
    {"piecewise", gs::piecewise{{1000, 3000, 7000}, {0.3, 0.1, 0.2, 0.01}}},
    {"piecewise_near", gs::piecewise{{0, 5000}, {0.3, 0.1, 0.05}}},
    {"polynomial", gs::polynomial{0.3, 8000, 0.01, 2}},
    {"polynomial_root", gs::polynomial{0.1, 5000, 0, 0.5}},
    {"inverse_time", gs::inverse_time{0.3, 0.5, 1000}},
    {"inverse_time_staircase", gs::inverse_time{0.1, 2, 700, true}},
    {"cosine", gs::cosine{0.3, 8000, 0.3 * 0.1}},
    {"cosine_warm", gs::warmup{gs::cosine{0.3, 6000}, 500, 0.01}},
    {"restarts", gs::cosine_restarts{0.3, 700, 0.3 * 0.1, 2, 0.9}},
    {"restarts_even", gs::cosine_restarts{0.1, 500, 0, 1, 0.5}},
    {"restarts_broken", gs::cosine_restarts{0.3, 400, 0.3 * 0.05, 1.5, 0.8}},
};

settings const optax{
    {"linear", gs::polynomial{0.3, 5000, 0.01}},
    {"linear_late", gs::chain{gs::constant{0.1}, 1000, gs::polynomial{0.1, 4000}}},
    {"polynomial", gs::polynomial{0.3, 8000, 0.01, 2}},
    {"polynomial_root", gs::polynomial{0.1, 5000, 0, 0.5}},
    {"piecewise", gs::piecewise{{999, 2999, 6999}, {0.3, 0.3 * 0.5, 0.3 * 0.05, 0.3 * 0.1}}},
    {"piecewise_near", gs::piecewise{{99}, {0.1, 0.1 * 0.1}}},
    {"exponential", gs::exponential{0.3, 0.96, 500}},
    {"exponential_staircase", gs::exponential{0.1, 0.5, 700, true}},
    {"exponential_late", gs::clamped{gs::chain{gs::constant{0.3}, 2000, gs::exponential{0.3, 0.7, 500}}, 0.01, 0.3}},
    {"cosine", gs::cosine{0.3, 8000, 0.3 * 0.1}},
    {"cosine_to_0", gs::cosine{0.1, 10'000}},
    {"warmup_constant", gs::warmup{gs::constant{0.3}, 500, 0.01}},
    {"warmup_cosine", gs::warmup{gs::cosine{0.3, 7500, 0.01}, 500}},
    {"warmup_cosine_high", gs::warmup{gs::cosine{0.1, 6000}, 1000, 0.02}},
    {"warmup_exponential", gs::warmup{gs::exponential{0.3, 0.5, 1000}, 500, 0.01}},
    {"warmup_exponential_stairs", gs::warmup{gs::clamped{gs::exponential{0.1, 0.8, 500, true}, 0.02, 0.1}, 1000}},
    {"join", gs::chain{gs::warmup{gs::constant{0.3}, 1000}, 1000, gs::constant{0.3}, 4000, gs::cosine{0.3, 3000}}},
    {"join_of_inverse",
     gs::chain{gs::constant{0.05}, 500, gs::exponential{0.3, 0.5, 1000}, 6000, gs::polynomial{0.1, 2500, 0, 3}}},
    {"sgdr",
     gs::chain{gs::warmup{gs::cosine{0.3, 1500, 0.01}, 500}, 2000, gs::warmup{gs::cosine{0.2, 3000}, 1000, 0.01}}},
};

struct golden_file {
    std::vector<std::int64_t> steps;
    std::map<std::string, std::vector<std::string>> rates; // "-" where the system has none
};

golden_file read(std::string const& system) {
    std::string const path = GOLDEN_FOLDER "/schedules_" + system + ".txt";
    std::ifstream in(path);
    INFO("reading " << path);
    REQUIRE(in);
    golden_file out;
    std::string line, name;
    std::getline(in, line);
    std::istringstream steps(line);
    steps >> name;
    REQUIRE(name == "steps");
    for (std::int64_t t; steps >> t;) out.steps.push_back(t);
    while (std::getline(in, line)) {
        std::istringstream fields(line);
        fields >> name;
        auto& rates = out.rates[name];
        for (std::string rate; fields >> rate;) rates.push_back(rate);
        REQUIRE(rates.size() == out.steps.size());
    }
    REQUIRE(out.steps.size() > 150);
    REQUIRE(out.steps.back() == 9999);
    return out;
}

void hold_to(std::string const& system, settings const& ours) {
    golden_file const theirs = read(system);
    REQUIRE(theirs.rates.size() == ours.size());
    for (auto const& [name, rates] : theirs.rates) {
        INFO(system << ' ' << name);
        REQUIRE(ours.count(name) == 1);
        double highest = 0;
        for (auto const& rate : rates)
            if (rate != "-") highest = std::fmax(highest, std::stod(rate));
        for (std::size_t i = 0; i < rates.size(); ++i) {
            if (rates[i] == "-") continue;
            double const rate = ours.at(name)({.step = theirs.steps[i]}), expected = std::stod(rates[i]);
            INFO("t = " << theirs.steps[i] << ": " << rate << ", there " << expected << ", off by " << rate - expected);
            // Where a rate falls to 0, what is left of it has the rounding of what it fell from.
            CHECK(std::abs(rate - expected) <= 1e-12 * expected + 1e-15 * highest);
        }
    }
}

} // namespace

TEST_CASE("torch gives the same rates", "[schedules][golden]") { hold_to("torch", torch); }
TEST_CASE("keras gives the same rates", "[schedules][golden]") { hold_to("keras", keras); }
TEST_CASE("optax gives the same rates", "[schedules][golden]") { hold_to("optax", optax); }
