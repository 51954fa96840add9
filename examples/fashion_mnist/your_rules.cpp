// Rules of your own in the demo. Only this file is compiled again when you change them:
//
//     ./dev demo --optimizers adam,cautious_adam

#include "../tutorials/cautious_adam.hpp"
#include "optimizers.hpp"

// [yours]
std::vector<contender> your_rules() {
    return {
        with("cautious_adam", 3e-3, cautious_adam{}), // the name, the peak of the learning rate, the rule
    };
}
// [yours]
