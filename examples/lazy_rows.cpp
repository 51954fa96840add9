// How a row of a table accounts for the steps that do not contain it: one weight under adagrad with
// a proximal elastic net and a decaying rate, in one batch of 250. `lazy_rows FILE.svg` draws the
// picture of docs/how_to/embedding_tables.md with gnuplot.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <gradstep/gradstep.hpp>

#include "common/plot.hpp"

namespace gs = gradstep;

int main(int argc, char** argv) {
    constexpr std::int64_t steps = 1000, row = 42, every = 250;
    constexpr double l1 = 0.004, l2 = 0.02;
    gs::exponential const rate{.rate = 0.2, .decay = 0.5, .steps = 300};
    // [tables]
    auto const optimizer = gs::make_updater<float>(gs::adagrad{}, gs::proximal{gs::elastic_net{l1, l2}}, rate);
    gs::table exact{optimizer, 1000, 8, gs::exact{}, {.initial = 1.0}};
    gs::table touched{optimizer, 1000, 8, gs::touch_only{}, {.initial = 1.0}};
    // [tables]
    gs::parameter dense{optimizer, std::vector<float>(8, 1.0f)}; // the row by itself, given 0 where it is not named

    // What other systems do: the number of missed steps times today's rate.
    double approximate = 1;
    std::int64_t seen = 0;

    figure picture{"Weight of a row that appears in one batch of 250", "step", steps, {}};
    picture.note = "adagrad with a proximal elastic net; the learning rate halves every 300 steps";
    picture.panels.push_back({.title = "", .curves = {}, .key = below, .y_label = "weight"});
    auto& curves = picture.panels[0].curves;
    curves = {{"dense", {}, 7}, {"exact", {}}, {"missed steps times today's rate", {}}, {"touch_only", {}}};
    double furthest = 0, missed_by_gap = 0;
    for (std::int64_t t = 1; t <= steps; ++t) {
        bool const named = t % every == 0;
        std::vector<std::int64_t> const ids{named ? row : 7};
        std::vector<float> const gradient(8, named ? -1.0f : 1.0f);
        // [update]
        exact.update(ids, gradient);
        touched.update(ids, gradient);
        float const weight = exact.row(row)[0]; // a caught-up copy
        // [update]
        dense.update(named ? gradient : std::vector<float>(8));

        double const today = rate({.step = t - 1}), gap = static_cast<double>(t - seen);
        double const pulled = std::max(0.0, approximate - gap * today * l1) / (1 + gap * today * l2);
        if (named) {
            approximate = dense.values()[0]; // it starts every gap at the right place
            seen = t;
        }
        double const right = dense.values()[0];
        furthest = std::fmax(furthest, std::fabs(weight - right));
        if (!named) missed_by_gap = std::fmax(missed_by_gap, std::fabs(pulled - right));
        if (t % 2 != 0 && !named) continue;
        auto const x = static_cast<double>(t);
        double const all[] = {right, weight, named ? approximate : pulled, touched.row(row)[0]};
        for (std::size_t k = 0; k < curves.size(); ++k) curves[k].points.push_back({x, all[k]});
    }
    // A dense float run rounds once a step.
    std::printf("furthest from the dense run: exact %.1e, missed steps times today's rate %.1e\n", furthest,
                missed_by_gap);
    if (argc > 1) plot(picture, argv[1]);
    return furthest < steps * 0x1p-24 && missed_by_gap > 0.01 ? 0 : 1;
}
