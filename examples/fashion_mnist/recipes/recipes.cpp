// The recipes by name. The rates of Adafactor and Prodigy are those that their authors recommend.
// The other peak rates were chosen by images that were held out of the training set:
//
//     ./dev demo --optimizers muon,schedule_free --held-out 10000 --seeds 3 --rate-scale 3      # and 0.3, 1, ...
//
// docs/start/which_optimizer.md has the accuracy at every rate.

#include "recipes.hpp"

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../contender.hpp"

namespace {

contender by(std::string name, double peak_rate, recipe::function* recipe) {
    auto const make = [=](std::span<network> nets, std::int64_t steps, double peak) -> std::unique_ptr<learner> {
        auto made = std::make_unique<learner_of_model>(nets.front());
        recipe(*made, peak, steps);
        return made;
    };
    return {std::move(name), peak_rate, make};
}

} // namespace

std::vector<contender> recipes() {
    return {
        by("adafactor", 1e-2, recipe::adafactor),
        by("averaged_adam", 3e-3, recipe::averaged_adam),
        by("muon", 3e-3, recipe::muon),
        by("prodigy", 1, recipe::prodigy),
        by("schedule_free", 9e-3, recipe::schedule_free),
        by("schedule_free_adam", 9e-3, recipe::schedule_free), // by the name of the rule
    };
}
