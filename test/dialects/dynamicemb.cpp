// Every function of gradstep::dialects::dynamicemb against a loop after dynamicemb's source.
#include <gradstep/dialects/dynamicemb.hpp>

#include "golden.hpp"

namespace dynamicemb = gradstep::dialects::dynamicemb;

TEST_CASE("the dialect dynamicemb gives the numbers of its source", "[dialects]") {
    golden::system system("dynamicemb", golden::scalars_in_element::all);
    system.follow("exact_sgd", dynamicemb::exact_sgd);
    system.follow<gs::decoupled>("adam", dynamicemb::adam);
    system.follow("exact_adagrad", dynamicemb::exact_adagrad);
    system.follow("exact_rowwise_adagrad", dynamicemb::exact_rowwise_adagrad);
    system.follow("ftrl", dynamicemb::ftrl);
    CHECK(system.left() == std::set<std::string>{});
}
