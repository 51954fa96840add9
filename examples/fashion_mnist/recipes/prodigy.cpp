// Prodigy, which estimates its rate for the whole model (Mishchenko & Defazio 2023,
// arXiv:2306.06101). Its authors recommend a cosine from 1, and no warm-up, since the estimate can
// grow too large in it (https://github.com/konstmish/prodigy).
#include <gradstep/rules/prodigy.hpp>

#include "recipes.hpp"

void recipe::prodigy(learner_of_model& net, double peak_rate, std::int64_t steps) {
    gs::cosine const schedule{.rate = peak_rate, .steps = steps};
    net.add(gs::make_updater<float>(gs::prodigy{}, gs::decoupled{weight_decay}, schedule), {"*"});
}
