// Every function of gradstep::dialects::ensmallen against ensmallen's own numbers.
#include <gradstep/dialects/ensmallen.hpp>

#include "golden.hpp"

namespace ensmallen = gradstep::dialects::ensmallen;

TEST_CASE("the dialect ensmallen gives ensmallen's numbers", "[dialects]") {
    // Bias corrections are in double for every matrix.
    golden::system system("ensmallen", golden::scalars_in_element::none);
    system.follow("standard_sgd", ensmallen::standard_sgd);
    system.follow("momentum_sgd", ensmallen::momentum_sgd);
    system.follow("nesterov_momentum_sgd", ensmallen::nesterov_momentum_sgd);
    system.follow("qhsgd", ensmallen::qhsgd);
    system.follow("rmsprop", ensmallen::rmsprop);
    system.follow("ada_grad", ensmallen::ada_grad);
    system.follow("ada_delta", ensmallen::ada_delta);
    system.follow("adam", ensmallen::adam);
    system.follow("amsgrad", ensmallen::amsgrad);
    system.follow("adamax", ensmallen::adamax);
    system.follow("nadam", ensmallen::nadam);
    system.follow("ada_belief", ensmallen::ada_belief);
    system.follow("qhadam", ensmallen::qhadam);
    CHECK(system.left() == std::set<std::string>{});
}
