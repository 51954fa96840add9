// The average of the weights in the pass of the update, read as a copy and in the place of the
// weights; and an average of weights that other code trains, in memory of its own. Last a rule that
// evaluates an average instead of lowering its rate.
#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

#include <gradstep/gradstep.hpp>

namespace gs = gradstep;

namespace {

float evaluate(std::span<float const> weights) { return weights[0]; }

bool in_the_update() {
    std::vector<float> const initial(100, 1.0f);
    int const steps = 200;
    // [averaged]
    gs::parameter weights{
        gs::make_updater<float>(gs::averaged{gs::momentum{}, gs::ema{.decay = 0.99}}, gs::constant{0.01}), initial};
    for (int t = 0; t < steps; ++t) {
        std::vector<float> const gradient(weights.values().begin(), weights.values().end()); // backward
        weights.update(gradient);
    }
    std::vector<float> const average = weights.average(); // a copy
    float shown = 0;
    {
        auto const applied = weights.apply_average(); // the average replaces the weights until the end of the scope
        shown = evaluate(weights.values());
    }
    // [averaged]
    return shown == average[0] && shown != weights.values()[0];
}

bool pulled_to_slow_weights() {
    std::vector<float> const initial(100, 1.0f), gradient(100, 0.5f);
    // [lookahead]
    gs::parameter weights{
        gs::make_updater<float>(gs::averaged{gs::adam{}, gs::lookahead{.period = 5, .alpha = 0.5}}, gs::constant{1e-3}),
        initial};
    // [lookahead]
    for (int t = 0; t < 4; ++t) weights.update(gradient);
    float const before = weights.values()[0];
    bool const stood = weights.average()[0] == 1.0f;
    weights.update(gradient);
    return stood && weights.values()[0] > before && weights.average()[0] == weights.values()[0];
}

bool near_the_pretrained_weights() {
    std::vector<float> const pretrained(100, 1.0f), gradient(100, 0.5f);
    // [towards_initial]
    gs::parameter weights{
        gs::make_updater<float>(gs::averaged{gs::adam{}, gs::towards_initial{.rate = 0.01}}, gs::constant{1e-3}),
        pretrained};
    // [towards_initial]
    gs::parameter alone{gs::make_updater<float>(gs::adam{}, gs::constant{1e-3}), pretrained};
    for (int t = 0; t < 100; ++t) weights.update(gradient), alone.update(gradient);
    return alone.values()[0] < weights.values()[0] && weights.values()[0] < 1 && weights.state("initial")[0] == 1;
}

bool in_other_memory() {
    std::vector<float> const initial(100, 1.0f), gradient(100, 0.5f);
    int const steps = 5;
    // [averager]
    gs::parameter weights{gs::make_updater<float>(gs::sgd{}, gs::constant{0.1}), initial};
    gs::averager average{gs::polyak{}, weights}; // of a parameter or of memory; then the backend of the sums
    for (int t = 0; t < steps; ++t) {
        weights.update(gradient);
        average.add(weights); // after every step
    }
    auto const applied = weights.apply_average(average.average()); // until the end of the scope
    // [averager]
    return weights.values()[0] > 0.84f && weights.values()[0] < 0.86f; // the mean of 0.95, 0.9, ..., 0.75
}

bool without_a_schedule() {
    std::vector<float> const initial(100, 1.0f);
    int const steps = 200;
    // [schedule_free]
    auto const optimizer = gs::make_updater<float>(gs::schedule_free_adam{}, gs::warmup{gs::constant{0.02}, 20});
    gs::parameter weights{optimizer, initial};
    for (int t = 0; t < steps; ++t) {
        std::vector<float> const gradient(weights.values().begin(), weights.values().end()); // backward
        weights.update(gradient);
    }
    float shown = 0;
    {
        auto const evaluating = weights.apply_average(); // x, until the end of the scope
        shown = evaluate(weights.values());
    }
    // [schedule_free]
    return shown > -0.5f && shown < 0.5f && shown != weights.values()[0];
}

} // namespace

int main() {
    bool const right = in_the_update() && pulled_to_slow_weights() && near_the_pretrained_weights() &&
                       in_other_memory() && without_a_schedule();
    std::puts(right ? "the averages are as they should be" : "the averages are wrong");
    return right ? 0 : 1;
}
