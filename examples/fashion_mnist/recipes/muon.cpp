// Muon for the matrix of the hidden layer, and AdamW for the output layer and the biases (Jordan et
// al. 2024, https://kellerjordan.github.io/posts/muon). With this scale both use AdamW's rate and
// decay (Liu et al. 2025, arXiv:2502.16982). The scale is the same for a matrix and its transpose:
// here a row belongs to an input, in torch to an output.
#include <gradstep/rules/muon.hpp>

#include "recipes.hpp"

void recipe::muon(learner_of_model& net, double peak_rate, std::int64_t steps) {
    auto const schedule = demo_schedule(peak_rate, steps);
    gs::muon const rule{.scale = gs::muon_scale::match_rms_adamw};
    net.add(gs::make_updater<float>(rule, gs::decoupled{weight_decay}, schedule), {"hidden.weight"});
    net.add(gs::make_updater<float>(gs::adam{}, gs::decoupled{weight_decay}, schedule), {"output.weight", "*.bias"});
}
