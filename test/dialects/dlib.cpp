// Every function of gradstep::dialects::dlib against dlib's own numbers.
#include <gradstep/dialects/dlib.hpp>

#include "golden.hpp"

namespace dlib = gradstep::dialects::dlib;

TEST_CASE("the dialect dlib gives dlib's numbers", "[dialects]") {
    // 1 - beta^t is computed in float.
    golden::system system("dlib", golden::scalars_in_element::all);
    system.follow<gs::l2>("sgd", dlib::sgd);
    system.follow<gs::l2>("adam", dlib::adam);
    CHECK(system.left() == std::set<std::string>{});
}
