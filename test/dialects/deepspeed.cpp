// Every function of gradstep::dialects::deepspeed against a loop after DeepSpeed's source.
#include <gradstep/dialects/deepspeed.hpp>

#include "golden.hpp"

namespace deepspeed = gradstep::dialects::deepspeed;

TEST_CASE("the dialect deepspeed gives the numbers of its source", "[dialects]") {
    golden::system system("deepspeed", golden::scalars_in_element::all);
    system.follow<gs::decoupled>("fused_adam", deepspeed::fused_adam);
    system.follow<gs::decoupled>("cpu_adam", deepspeed::cpu_adam);
    CHECK(system.left() == std::set<std::string>{});
}
