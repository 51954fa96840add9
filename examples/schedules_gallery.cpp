// Every schedule over 1000 steps. `schedules_gallery FILE.svg` draws the picture of
// docs/reference/schedules.md with gnuplot.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

#include <gradstep/gradstep.hpp>

#include "common/plot.hpp"

namespace gs = gradstep;

namespace {

constexpr std::int64_t steps = 1000;

// A run whose batches double at half time, from one sample to two, with ten epochs.
gs::clock clock_at(std::int64_t t) {
    return {.step = t, .samples = t < steps / 2 ? t : 2 * t - steps / 2, .epoch = t / 100};
}

template <class Schedule> curve drawn(std::string name, Schedule const& schedule) {
    curve out{std::move(name), {}};
    auto const rate = [&](std::int64_t t) { return schedule(clock_at(t)); };
    for (std::int64_t t = 0; t <= steps; t += 5) {
        bool const is_straight = t > 0 && t < steps && std::fabs(rate(t - 5) - 2 * rate(t) + rate(t + 5)) < 1e-6;
        if (!is_straight) out.points.push_back({static_cast<double>(t), rate(t)}); // others make the file larger only
    }
    return out;
}

figure gallery() {
    using enum gs::cyclic_mode;
    figure all{"Learning rate of every schedule over 1000 steps", "step", steps, {}, 4};
    auto const add = [&all](std::string title, auto... curves) {
        all.panels.push_back({.title = std::move(title),
                              .curves = {std::move(curves)...},
                              .key = above,
                              .y_end = 1,
                              .y_label = "learning rate"});
    };
    // [composed]
    gs::cosine const half_wave{.rate = 1, .steps = 1000, .end = 0.1};
    gs::exponential const halved{.rate = 1, .decay = 0.5, .steps = 200};

    gs::warmup const warm{halved, 300};
    gs::warmup const in_place{halved, 300, 0, gs::ramp::linear, true};
    gs::chain const joined{gs::warmup{gs::constant{0.8}, 100}, 400, halved, 700, gs::constant{0.2}};
    gs::scaled const half_height{half_wave, 0.5};
    gs::clamped const bounded{half_wave, 0.3, 0.8};
    gs::by_samples const in_samples{half_wave}; // half_wave, with its steps counted in samples
    gs::by_epochs const in_epochs{gs::cosine{.rate = 1, .steps = 10, .end = 0.1}};
    // [composed]

    add("constant", drawn("rate = 0.5", gs::constant{0.5}));
    add("linear", drawn("a = 0.001, b = 0", gs::linear{.rate = 1, .a = 0.001, .b = 0}),
        drawn("a = 0.002, b = 0.1", gs::linear{.rate = 1, .a = 0.002, .b = 0.1}));
    add("polynomial", drawn("power = 1", gs::polynomial{.rate = 1, .steps = 800, .end = 0.1}),
        drawn("power = 2", gs::polynomial{.rate = 1, .steps = 800, .end = 0.1, .power = 2}),
        drawn("power = 0.5", gs::polynomial{.rate = 1, .steps = 800, .end = 0.1, .power = 0.5}));
    add("poly", drawn("a = 0.01, b = 0.5", gs::poly{.rate = 1, .a = 0.01, .b = 0.5}),
        drawn("a = 0.01, b = 1", gs::poly{.rate = 1, .a = 0.01, .b = 1}));
    add("inverse_time", drawn("decay = 1", gs::inverse_time{.rate = 1, .decay = 1, .steps = 200}),
        drawn("staircase", gs::inverse_time{.rate = 1, .decay = 1, .steps = 200, .staircase = true}));
    add("exponential", drawn("decay = 0.5", halved),
        drawn("staircase", gs::exponential{.rate = 1, .decay = 0.5, .steps = 200, .staircase = true}));
    add("natural_exp", drawn("decay = 1", gs::natural_exp{.rate = 1, .decay = 1, .steps = 300}),
        drawn("staircase", gs::natural_exp{.rate = 1, .decay = 1, .steps = 300, .staircase = true}));
    add("piecewise", drawn("three rates", gs::piecewise{.boundaries = {300, 700}, .rates = {1, 0.5, 0.1}}));
    add("cosine", drawn("end = 0.1", half_wave), drawn("steps = 600", gs::cosine{.rate = 1, .steps = 600}));
    add("cosine_restarts", drawn("steps = 250", gs::cosine_restarts{.rate = 1, .steps = 250}),
        drawn("multiply = 2, decay = 0.7",
              gs::cosine_restarts{.rate = 1, .steps = 140, .end = 0.1, .multiply = 2, .decay = 0.7}));
    add("one_cycle", drawn("cosine", gs::one_cycle{.rate = 1, .steps = 1000}),
        drawn("linear", gs::one_cycle{.rate = 1, .steps = 1000, .shape = gs::anneal::linear}));
    add("cyclic", drawn("triangular", gs::cyclic{0.1, 1, 125, 125}),
        drawn("triangular2", gs::cyclic{0.1, 1, 125, 125, triangular2}),
        drawn("exp_range", gs::cyclic{0.1, 1, 125, 125, exp_range, 0.998}));
    add("noam", drawn("steps = 200", gs::noam{.rate = 300, .width = 512, .steps = 200}),
        drawn("steps = 400", gs::noam{.rate = 300, .width = 512, .steps = 400}));
    add("warmup", drawn("linear", warm), drawn("exponential", gs::warmup{halved, 300, 0.01, gs::ramp::exponential}),
        drawn("in place", in_place));
    add("warmup_stable_decay", drawn("linear", gs::warmup_stable_decay{1, 100, 500, 300}),
        drawn("cosine", gs::warmup_stable_decay{1, 100, 500, 300, 0, 0, gs::anneal::cosine}),
        drawn("sqrt", gs::warmup_stable_decay{1, 100, 500, 300, 0, 0, gs::anneal::sqrt}));
    add("chain", drawn("three schedules", joined));
    add("scaled", drawn("a cosine", half_wave), drawn("times 0.5", half_height));
    add("clamped", drawn("a cosine", half_wave), drawn("in [0.3, 0.8]", bounded));
    add("by_samples", drawn("by steps", half_wave), drawn("larger batches", in_samples));
    add("by_epochs", drawn("ten epochs", in_epochs));
    return all;
}

} // namespace

int main(int argc, char** argv) {
    figure const all = gallery();
    bool good = true;
    for (panel const& p : all.panels)
        for (curve const& c : p.curves)
            for (auto const [x, y] : c.points) good = good && std::isfinite(y) && y >= 0 && y <= 1;
    std::printf("%zu schedules, every rate from 0 to 1: %s\n", all.panels.size(), good ? "yes" : "no");
    if (argc > 1) plot(all, argv[1]);
    return good ? 0 : 1;
}
