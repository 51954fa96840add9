// Adafactor, which keeps one number for each row and column of a matrix (Shazeer & Stern 2018,
// arXiv:1804.04235). Its rate is a bound for 1 / sqrt(t), and relative to the size of the weights:
// it needs no schedule.
#include <gradstep/rules/adafactor.hpp>

#include "recipes.hpp"

void recipe::adafactor(learner_of_model& net, double bound, std::int64_t) {
    net.add(gs::make_updater<float>(gs::adafactor{}, gs::constant{bound}), {"*"});
}
