// Every function of gradstep::dialects::timm against timm's own numbers, and the scale n / (k + 1)
// of cautious rules against pytorch_optimizer's.
#include <gradstep/dialects/timm.hpp>

#include "golden.hpp"

namespace timm = gradstep::dialects::timm;

TEST_CASE("the dialect timm gives timm's numbers", "[dialects]") {
    golden::system system("timm", golden::scalars_in_element::none); // they are Python's, in double
    system.follow<gs::decoupled>("cadamw", timm::cadamw);
    system.follow<gs::decoupled>("clion", timm::clion);
    CHECK(system.left() == std::set<std::string>{});
}

namespace {
auto cautious_lion(timm::clion_arguments with) {
    gs::cautious_lion out = timm::clion(with);
    out.rescale = gs::rescaling::count;
    return out;
}
} // namespace

TEST_CASE("cautious_lion that counts gives the numbers of pytorch_optimizer", "[dialects]") {
    golden::system system("pytorch_optimizer", golden::scalars_in_element::none);
    system.follow<gs::decoupled>("cautious_lion", cautious_lion);
    CHECK(system.left() == std::set<std::string>{});
}
