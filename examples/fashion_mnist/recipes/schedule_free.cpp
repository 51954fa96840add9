// Schedule-free AdamW, judged by its average (Defazio et al. 2024, arXiv:2405.15682). Its authors
// recommend a warm-up, then a constant rate of one to ten times AdamW's
// (https://github.com/facebookresearch/schedule_free).
#include <gradstep/rules/schedule_free_adam.hpp>

#include "recipes.hpp"

void recipe::schedule_free(learner_of_model& net, double rate, std::int64_t steps) {
    gs::warmup const schedule{gs::constant{rate}, steps / 20};
    gs::schedule_free_adam const with_decay{.decay = weight_decay}; // a part of the rule
    net.add(gs::make_updater<float>(with_decay, schedule), {"*.weight"});
    net.add(gs::make_updater<float>(gs::schedule_free_adam{}, schedule), {"*.bias"});
}
