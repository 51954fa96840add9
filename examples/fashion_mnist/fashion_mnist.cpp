// The demo: six optimizers on Fashion-MNIST.
//
//     compare.cpp      the program                    optimizers.cpp        the six
//     idx.hpp          reads the data                 more_optimizers.cpp   other rules: every_optimizer.cpp
//     network.hpp      forward and backward           recipes/              rules with groups, schedules or averages
//     training.hpp     the training loop              your_rules.cpp        your rules
//     plain_loops.hpp  the six by hand                learner.hpp           an optimizer on a network
//     copy_limit.hpp   the machine's memory speed     updater_learners.hpp  updaters: here gradstep is used
//     reproducible.hpp the hash                       learner_of_model.hpp  the same by gs::model
//     options.hpp      the options                    ../common             progress bar, interrupts, plot, errors

#include "contender.hpp"

int main(int argc, char** argv) { return compare(argc, argv, default_optimizers()); }
