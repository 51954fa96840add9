#include <gradstep/regularizers/l2.hpp>
#include <gradstep/rules/momentum.hpp>

#include "optimizer_of.hpp"

std::unique_ptr<optimizer> make_momentum(settings const& given) {
    return optimizer_with(gs::momentum{.mu = given.momentum}, gs::l2{given.weight_decay});
}
