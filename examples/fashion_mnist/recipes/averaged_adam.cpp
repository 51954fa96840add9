// Adam, judged by an exponential moving average of its weights.
#include "recipes.hpp"

void recipe::averaged_adam(learner_of_model& net, double peak_rate, std::int64_t steps) {
    gs::averaged const rule{gs::adam{}, gs::ema{0.999}};
    net.add(gs::make_updater<float>(rule, demo_schedule(peak_rate, steps)), {"*"});
}
