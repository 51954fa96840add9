#include <gradstep/regularizers/decoupled.hpp>
#include <gradstep/rules/adam.hpp>

#include "optimizer_of.hpp"

// [adamw]
std::unique_ptr<optimizer> make_adamw(settings const& given) {
    return optimizer_with(gs::adam{.beta1 = given.beta1, .beta2 = given.beta2, .epsilon = given.epsilon},
                          gs::decoupled{given.weight_decay});
}
// [adamw]
